-- Put a session back as it was, unless there is one.
--
-- KEYS     1 the session
-- ARGV     1 packed list: field, value, ...  2 until when it lives (server time, ms); 0:
--          for ever
-- Returns  1 if it was put there, 0 if there was one or its time is over

local CHUNK = 4000 -- `unpack` fails on long lists

local key, fields, expires_at = KEYS[1], cmsgpack.unpack(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local left = expires_at - (time[1] * 1000 + math.floor(time[2] / 1000))

if redis.call('TYPE', key).ok ~= 'none' or (expires_at > 0 and left <= 0) then
  return 0
end
for first = 1, #fields, CHUNK do
  redis.call('HSET', key, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
end
if expires_at > 0 then
  redis.call('PEXPIRE', key, string.format('%.0f', left))
end
return 1
