-- Deletes an old epoch of the seen set, some shards at a time; of a finished crawl, has
-- it expire with the rest.
--
-- KEYS     all keys of the crawl, see include/keys.lua; then the epoch's own key or,
--          of a packed set, some of its shards
-- ARGV     1 where to go on, as answered last
-- Returns  where to go on, "<epoch>/<shards>:<shard>"; empty: nothing is left

-- @include keys
-- @include crawl
-- @include tidy

if not load_crawl() or next_to_tidy() ~= ARGV[1] then
  return next_to_tidy()
end
begin_writing()
-- Negative where a finished crawl stays for ever; its old epochs need not.
local left = crawl.expires_at - now
for i = FIXED_KEYS + 1, #KEYS do
  if crawl.status == 'finished' then
    redis.call('PEXPIRE', KEYS[i], left)
  else
    redis.call('UNLINK', KEYS[i])
  end
end
note_tidied(#KEYS - FIXED_KEYS)
save_crawl()
if crawl.tidy == '' and crawl.status == 'finished' and crawl.expires_at > 0 then
  redis.call('PEXPIRE', K.crawl, left)
end
return next_to_tidy()
