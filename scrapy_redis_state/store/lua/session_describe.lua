-- A look at a session that changes nothing, not even when it expires.
--
-- KEYS     1 the session
-- ARGV     none
-- Returns  status (ok, none, foreign), cookies, updated_at, ms to live (-1: for ever),
--          its renewal (field, value, ...)

-- @include session

-- Without the pages that have caused it (see session_renewal.lua).
local function renewal()
  local flat = {}
  for field, value in pairs(fields) do
    if string.sub(field, 1, 8) == 'renewal:' and field ~= 'renewal:pages' then
      flat[#flat + 1] = field
      flat[#flat + 1] = value
    end
  end
  return flat
end

if load_session() then
  return {'foreign', 0, '', 0, {}}
end
local count = 0
for _, cookie in pairs(cookies) do
  if cookie.ok and not has_expired(cookie) then
    count = count + 1
  end
end
-- One that was given up before there was anything in it keeps its pages from being done.
if is_empty() and not fields['renewal:failed'] then
  return {'none', 0, '', 0, {}}
end
return {'ok', count, fields.updated_at or '0', redis.call('PTTL', key), renewal()}
