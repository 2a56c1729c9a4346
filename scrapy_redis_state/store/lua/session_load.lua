-- Load a session and count it as used.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 epoch known  3 version known
--          4 time of the caller (unix, s)
-- Returns  status (ok, unchanged, foreign), fields (name, value, ...),
--          with foreign: why it cannot be read

-- @include session

local ttl = tonumber(ARGV[1])

-- Asked every second for sessions in use, so not at the price of reading them.
local function is_unchanged()
  local stored = redis.pcall('HMGET', key, 'epoch', 'version', 'schema', 'renewal:until')
  return ARGV[2] ~= '' and stored[1] == ARGV[2] and stored[2] == ARGV[3]
    and stored[3] == SCHEMA and not stored[4]
end

if is_unchanged() then
  if ttl > 0 then
    touch(ttl)
  end
  return {'unchanged', {}, {}}
end
use_clock_of(ARGV[4])
local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}}
end
if exists() then
  drop_expired()
  touch(ttl)
end
return {'ok', content(), {}}
