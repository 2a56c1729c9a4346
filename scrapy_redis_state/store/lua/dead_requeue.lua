-- Put dead letters back into the frontier, past the seen set and with nothing counted
-- against them. A crawl that has finished goes on.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 epoch  2 packed list: id, when it was given up, as told, and its request
--          as it is to be run, of each letter
-- Returns  status (ok, none, epoch, expiring), epoch, how many were put back

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry
-- @include workers
-- @include wake
-- @include letters

local epoch, letters = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[2])

-- What finish() let expire. A packed set has more keys than one call can take back.
local function go_on()
  set('status', 'running')
  set('finished_at', 0)
  set('expires_at', 0)
  for name in pairs(K) do
    redis.call('PERSIST', K[name])
  end
end

local function is_expiring()
  return crawl.finished_ttl_ms > 0 and (seen.shards > 0 or seen.earlier > 0)
end

local function requeue(id, given_up, payload)
  local info = redis.call('HGET', K.deadinfo, id)
  if not info or not is_same_letter(id, given_up) then
    return 0
  end
  local ok, letter = pcall(cmsgpack.unpack, info)
  local priority = number(ok and type(letter) == 'table' and tonumber(letter.priority) or 0)
  redis.call('HSET', K.requests, id, join_entry(priority, 0, '', payload))
  redis.call('ZADD', K.frontier, priority, id)
  return remove_letter(id)
end

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {'none', 0, 0}
end
if epoch ~= crawl.epoch then
  return {'epoch', crawl.epoch, 0}
end
local finished = crawl.status == 'finished'
if finished and is_expiring() then
  return {'expiring', crawl.epoch, 0}
end
begin_writing()
local count = 0
for _, letter in ipairs(letters) do
  count = count + requeue(unpack(letter))
end
if finished and count > 0 then
  go_on()
end
wake_idle()
save_crawl()
return {'ok', crawl.epoch, count}
