-- Remove a crawl. Called twice: the first call opens a generation with nothing in it, as
-- a reset does, so that what has too many keys for one call can be tidied away; the
-- second removes that, unless somebody has begun to use it.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 epoch  2 token, the same both times  3 flags: any of f(orce), also while
--          workers live, d(ry run), only say what would be done, and i(mport), only
--          what is being imported with this token
--          4 for how long nobody must have used it (ms); 0: for no time
-- Returns  status (ok, none, epoch, busy, recent, used, tidy),
--          epoch or number of live workers, where tidy.lua has something to do

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include generation
-- @include workers

local epoch, token, idle = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])

local function flag(letter)
  return string.find(ARGV[3], letter, 1, true) ~= nil
end

local function unused_ms()
  local last = 0
  for _, field in ipairs({'last_time', 'pushed_at', 'epoch_began', 'finished_at'}) do
    last = math.max(last, tonumber(redis.call('HGET', K.crawl, field) or 0))
  end
  return now - last
end

-- Of the generation that a first call of the same deletion opens.
local own_token = flag('i') and token .. ' removed' or token

local function is_ours()
  return crawl.token == own_token
end

-- Half a crawl; once it is whole it is no longer the importer's.
local function is_import()
  return crawl.token == token and crawl.status == 'importing'
end

-- Nothing but the crawl's own hash.
local function is_empty_now()
  for name in pairs(K) do
    if name ~= 'crawl' and redis.call('TYPE', K[name]).ok ~= 'none' then
      return false
    end
  end
  return true
end

local function remove()
  local removed = 0
  for name in pairs(K) do
    removed = removed + redis.call('UNLINK', K[name])
  end
  return removed
end

local exists, wrong = open_any_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  -- Of a crawl whose hash is gone, other keys may be left.
  local left = idle == 0 and not flag('d') and not flag('i') and remove() or 0
  return {left > 0 and 'ok' or 'none', 0, ''}
end
if flag('i') and not is_import() and not is_ours() then
  return {'none', 0, ''}
end
if epoch ~= crawl.epoch then
  return {'epoch', crawl.epoch, ''}
end
if is_ours() then
  if next_to_tidy() ~= '' then
    return {'tidy', crawl.epoch, next_to_tidy()}
  end
  if not is_empty_now() then
    return {'used', 0, ''}
  end
  remove()
  return {'ok', 0, ''}
end
-- Live workers make a call each second. By the crawl clock, which counts 5 s from one
-- call to the next at most, those that died long ago would still be alive.
if idle > 0 and unused_ms() < idle then
  return {'recent', 0, ''}
end
advance_clock()
if idle == 0 and not flag('f') and count_live() > 0 then
  save_crawl()
  return {'busy', count_live(), ''}
end
if flag('d') then
  return {'ok', 0, ''}
end
open_generation(own_token)
save_crawl()
return {'tidy', crawl.epoch, next_to_tidy()}
