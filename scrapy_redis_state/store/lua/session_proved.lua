-- A page was good with a session that was made anew: earlier failures are forgotten.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 epoch that the page was sent with
-- Returns  status (ok; stale: it is another session, or proved already; foreign), fields
--          (name, value, ...), with foreign: why it cannot be read

-- @include session
-- @include session_write
-- @include session_renewal

local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}}
end
if fields.epoch ~= ARGV[2] or not fields[UNPROVEN] then
  return {'stale', content(), {}}
end
begin_writing(false)
remove(UNPROVEN)
remove(FAILURES)
end_writing(1, tonumber(ARGV[1]))
return {'ok', content(), {}}
