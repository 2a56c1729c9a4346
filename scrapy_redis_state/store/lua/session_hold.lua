-- A sign of life of who renews a session.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 holder  3 lease (ms)
-- Returns  status (ok, stale: the renewal is not this holder's any more)

-- @include session
-- @include session_write
-- @include session_renewal

if load_session() or not is_held_by(ARGV[2]) then
  return {'stale'}
end
begin_writing(true)
hold(ARGV[2], tonumber(ARGV[3]))
touch(tonumber(ARGV[1]))
return {'ok'}
