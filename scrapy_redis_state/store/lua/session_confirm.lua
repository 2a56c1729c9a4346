-- Set cookies again that a response set as they were, where somebody has changed them
-- meanwhile; but not where that came after the response.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 epoch that was known (empty: of no
--          session)  3 packed map: fields to set (name, value, ...), age of the response
--          by field (ms)  4 time of the caller (unix, s)
-- Returns  status (ok, stale, foreign), fields (name, value, ...), fields without room,
--          with foreign: why it cannot be read

-- @include session
-- @include session_write

local ttl, changes = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[3])

local function still_wanted()
  local wanted, recent = {}, recent_changes()
  for i = 1, #changes.set, 2 do
    local field = changes.set[i]
    if changed_at(recent, field) < now_ms - changes.ages[field] then
      wanted[#wanted + 1] = field
      wanted[#wanted + 1] = changes.set[i + 1]
    end
  end
  return wanted
end

use_clock_of(ARGV[4])
local refusal = refusal_of(ARGV[2], ttl)
if refusal then
  return refusal
end
local sets = still_wanted()
if #sets == 0 then
  touch(ttl)
  return {'ok', content(), {}}
end
begin_writing(true)
give_epoch()
drop_expired()
local count, refused = set_all(sets)
end_writing(count, ttl)
return {'ok', content(), refused}
