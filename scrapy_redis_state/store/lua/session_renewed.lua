-- End a renewal: the session is as good as its maker can tell.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 holder  3 packed list: fields of the new
--          session (empty: it is what the responses meanwhile made of it)
--          4 time of the caller (unix, s)
-- Returns  status (ok, stale, foreign), fields (name, value, ...), fields without room,
--          with foreign: why it cannot be read

-- @include session
-- @include session_write
-- @include session_renewal

local function remove_content()
  local found = {}
  for field in pairs(fields) do
    if not is_own(field) then
      found[#found + 1] = field
    end
  end
  for _, field in ipairs(found) do
    remove(field)
    note_change(field)
  end
end

use_clock_of(ARGV[4])
local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}}
end
if not is_held_by(ARGV[2]) then
  return {'stale', content(), {}}
end
local count, refused = 0, {}
begin_writing(ARGV[3] ~= '')
forget_renewal()
if ARGV[3] ~= '' then
  remove_content()
  count, refused = set_all(cmsgpack.unpack(ARGV[3]))
end
store(UNPROVEN, '1')
end_writing(count + 1, tonumber(ARGV[1]))
return {'ok', content(), refused}
