-- The renewal of a session (see session.lua and session_write.lua): who makes it anew,
-- until when (server time, ms) without a sign of life, and how often that failed.
-- A renewal that is begun and not ended has a holder, or a time to try again. One that is
-- ended is unproven until a page was good with what it made; only then are earlier
-- failures forgotten.

local HOLDER, SINCE, UNTIL = 'renewal:holder', 'renewal:since', 'renewal:until'
local FAILURES, RETRY_AT, FAILED = 'renewal:failures', 'renewal:retry_at', 'renewal:failed'
local UNPROVEN, PAGES = 'renewal:unproven', 'renewal:pages'
local MOST_PAGES = 50
local LONGEST_MS = 600000 -- a clock that is set back must not make anybody wait for days

local function ms_left(field)
  local left = whole(fields[field]) - now_ms
  return left <= LONGEST_MS and math.max(left, 0) or 0
end

local function failures()
  return whole(fields[FAILURES])
end

local function is_held_by(holder)
  return fields[HOLDER] == holder
end

local function hold(holder, lease)
  store(HOLDER, holder)
  store(UNTIL, number(now_ms + lease))
end

-- Nobody holds it any more. One that failed is tried again, but not too often.
--
-- failure  a word for why it failed; nil: it has not
local function let_go(failure, most, back_off)
  remove(HOLDER)
  remove(SINCE)
  remove(UNTIL)
  if not failure then
    store(RETRY_AT, number(now_ms))
    return
  end
  local count = failures() + 1
  store(FAILURES, number(count))
  if count >= most then
    remove(RETRY_AT)
    store(FAILED, failure)
  else
    store(RETRY_AT, number(now_ms + back_off * 2 ^ (count - 1)))
  end
end

local function forget_renewal()
  for _, field in ipairs({HOLDER, SINCE, UNTIL, RETRY_AT, FAILED}) do
    remove(field)
  end
end

-- Pages that have each caused a renewal already; the last ones.
local function blamed_pages()
  local ok, stored = pcall(cjson.decode, fields[PAGES] or '')
  local found = {}
  for _, page in ipairs(ok and type(stored) == 'table' and stored or {}) do
    found[#found + 1] = type(page) == 'string' and page or nil
  end
  return found
end
