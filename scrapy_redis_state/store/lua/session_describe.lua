-- A look at a session that changes nothing, not even when it expires.
--
-- KEYS     1 the session
-- ARGV     none
-- Returns  status (ok, none, foreign), cookies, updated_at, ms to live (-1: for ever)

-- @include session

if load_session() then
  return {'foreign', 0, '', 0}
end
local count = 0
for _, cookie in pairs(cookies) do
  if cookie.ok and not has_expired(cookie) then
    count = count + 1
  end
end
if is_empty() then
  return {'none', 0, '', 0}
end
return {'ok', count, fields.updated_at or '0', redis.call('PTTL', key)}
