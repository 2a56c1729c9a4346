-- Let workers use a crawl, now that all of it is imported.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 token of the import  2 status of the crawl  3 sequence that request ids were
--          taken from  4 packed list of sizes: frontier, delayed, suspects, dead letters
-- Returns  status (ok, gone, differs); with ok: where tidy.lua has something to do; with
--          differs: sizes as they are

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include finish

local token, status, sequence, expected = ARGV[1], ARGV[2], ARGV[3], cmsgpack.unpack(ARGV[4])

local exists, wrong = open_any_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists or crawl.token ~= token or crawl.status ~= 'importing' then
  return {'gone', ''}
end
local sizes = {}
for i, key in ipairs({K.frontier, K.delayed, K.suspects, K.dead}) do
  sizes[i] = redis.call('ZCARD', key)
end
if table.concat(sizes, ',') ~= table.concat(expected, ',') then
  return {'differs', table.concat(sizes, ',')}
end
set('last_time', now)
set('status', status)
set('sequence', sequence)
raise_seen_version()
if status == 'finished' then
  finish(crawl.finished_at)
end
save_crawl()
return {'ok', next_to_tidy()}
