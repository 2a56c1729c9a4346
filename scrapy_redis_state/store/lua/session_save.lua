-- Change a session, if it is still the one that the changes are meant for.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 epoch that was known (empty: of no
--          session; any: whatever there is)
--          3 packed map: fields to set, to delete, names of cookies to delete
--          4 time of the caller (unix, s)
-- Returns  status (ok, stale, foreign), fields (name, value, ...), fields without room,
--          with foreign: why it cannot be read

-- @include session
-- @include session_write

local ttl, epoch, changes = tonumber(ARGV[1]), ARGV[2], cmsgpack.unpack(ARGV[3])

local function delete_named(names)
  local found = {}
  for _, name in ipairs(names) do
    for field in pairs(cookies) do
      local ok, parts = pcall(cjson.decode, string.sub(field, 8))
      if ok and type(parts) == 'table' and parts[3] == name then
        found[#found + 1] = field
      end
    end
  end
  return found
end

local function delete_all(names)
  local count = 0
  for _, field in ipairs(names) do
    if remove(field) then
      note_change(field)
      count = count + 1
    end
  end
  return count
end

use_clock_of(ARGV[4])
local refusal = refusal_of(epoch, ttl)
if refusal then
  return refusal
end
if not exists() and #changes.set == 0 then
  return {'ok', {}, {}}
end
begin_writing(#changes.set > 0)
give_epoch()
drop_expired()
local count = delete_all(delete_named(changes.names)) + delete_all(changes.delete)
local changed, refused = set_all(changes.set)
end_writing(count + changed, ttl)
return {'ok', content(), refused}
