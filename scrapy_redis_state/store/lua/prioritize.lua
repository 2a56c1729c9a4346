-- Raise or lower the priority of some requests, wherever they are.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 what is added  2 packed list of request ids
-- Returns  how many were there

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry

local MOST = 2 ^ 53 -- larger numbers are not exact in a sorted set

local added, ids = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[2])

local function raise(id)
  local entry = redis.call('HGET', K.requests, id)
  local priority, deliveries, refusers, payload = split_entry(entry or '')
  if not priority then
    return 0
  end
  priority = number(math.max(-MOST, math.min(MOST, priority + added)))
  redis.call('HSET', K.requests, id, join_entry(priority, deliveries, refusers, payload))
  -- Those that are delayed or in flight are put back by what the entry says.
  redis.call('ZADD', K.frontier, 'XX', priority, id)
  redis.call('ZADD', K.suspects, 'XX', priority, id)
  return 1
end

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return 0
end
begin_writing()
local count = 0
for _, id in ipairs(ids) do
  count = count + raise(id)
end
set('prioritized_at', now_us) -- whoever reads the crawl step by step must know
save_crawl()
return count
