-- Give up a renewal: it failed, or who makes it has to stop and leaves it to others.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 holder  3 failures at most
--          4 back-off after the first failure (ms), doubled by each further one
--          5 whether this is a failure (0, 1)
-- Returns  status (ok, stale, foreign), fields (name, value, ...), with foreign: why it
--          cannot be read

-- @include session
-- @include session_write
-- @include session_renewal

local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}}
end
if not is_held_by(ARGV[2]) then
  return {'stale', content(), {}}
end
begin_writing(false)
let_go(ARGV[5] == '1' and 'failed' or nil, tonumber(ARGV[3]), tonumber(ARGV[4]))
end_writing(1, tonumber(ARGV[1]))
return {'ok', content(), {}}
