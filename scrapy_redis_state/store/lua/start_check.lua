-- Ask, without changing anything, whether start keys can be used.
--
-- KEYS     the start keys
-- ARGV     none
-- Returns  key, type, ... of those that there are
--          or an error, NOPERM, that names the commands which the user may not run

-- @include denials

-- With a word for a number where it would change something. Those for sets are asked at
-- a join, but for one.
local COMMANDS = {
  {'LRANGE', 0, 0}, {'LPOS', '', 'MAXLEN', 1}, {'LREM', 'x', ''}, {'SRANDMEMBER', 0},
}

local missed, types = {}, {}
for number, key in ipairs(KEYS) do
  note(missed, 'TYPE', redis.pcall('TYPE', key))
  if #missed > 0 then
    break
  end
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' then
    types[#types + 1] = key
    types[#types + 1] = type
  end
  for _, command in ipairs(number == 1 and COMMANDS or {}) do
    local name = command[1]
    note(missed, name, redis.pcall(name, key, unpack(command, 2)))
  end
end
if #missed > 0 then
  return redis.error_reply('NOPERM the user may not run ' .. table.concat(missed, ', '))
end
return types
