-- Put a new session in the place of whatever there is, or nothing.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 packed list: fields to set
--          3 time of the caller (unix, s)
-- Returns  status (ok, foreign), fields (name, value, ...), fields without room,
--          with foreign: why it cannot be read

-- @include session
-- @include session_write

local sets = cmsgpack.unpack(ARGV[2])
use_clock_of(ARGV[3])
local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}}
end
begin_writing(#sets > 0)
start_over()
local count, refused = set_all(sets)
end_writing(count + 1, tonumber(ARGV[1]))
return {'ok', content(), refused}
