-- Begin the renewal of a session that is no good, unless somebody has. What is begun has
-- a new epoch and nothing in it, so that what belongs to the old session is stale.
--
-- KEYS     1 the session
-- ARGV     1 ttl (s; 0: as its cookies say)  2 holder  3 epoch judged (empty: it did
--          not exist)  4 lease (ms)  5 failures at most  6 back-off after the first
--          failure (ms), doubled by each further one  7 page that was judged, if any
--          8 time of the caller (unix, s)
-- Returns  status (yours, busy, renewed, failed, foreign; disproved: this claim has made
--          a failure of the last renewal; blamed: not the session is to blame, but the
--          page), fields (name, value, ...), with foreign: why it cannot be read, ms until
--          it is worth asking again

-- @include session
-- @include session_write
-- @include session_renewal

local ttl, holder, judged = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease, most, back_off = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local page = ARGV[7]

local function answer(status, ms)
  touch(ttl)
  return {status, content(), {}, ms or 0}
end

local function is_judged()
  return not fields.epoch or fields.epoch == judged
end

-- A holder that is silent for too long has died. That may be the fault of what it did.
local function take_from_dead()
  begin_writing(true)
  let_go('died', most, 0)
end

-- No page was good since the last renewal, and this one is not.
local function disprove()
  begin_writing(true)
  remove(UNPROVEN)
  let_go('invalid', most, back_off)
  end_writing(1, ttl)
  return answer('disproved', ms_left(RETRY_AT))
end

-- It has had the session renewed before; since then others were good.
local function is_to_blame()
  for _, one in ipairs(blamed_pages()) do
    if one == page then
      return true
    end
  end
  return false
end

-- So that each page has one renewal at most.
local function blame()
  local pages = blamed_pages()
  pages[#pages + 1] = page ~= '' and page or nil
  while #pages > MOST_PAGES do
    table.remove(pages, 1)
  end
  if #pages > 0 then
    store(PAGES, cjson.encode(pages))
  end
end

local function begin()
  local count, pages = fields[FAILURES], fields[PAGES]
  begin_writing(true)
  start_over()
  hold(holder, lease)
  store(SINCE, number(now_ms))
  if pages then
    store(PAGES, pages)
  end
  blame()
  if count then
    store(FAILURES, count)
  end
  end_writing(1, ttl)
  return answer('yours', lease)
end

use_clock_of(ARGV[8])
local foreign = load_session()
if foreign then
  return {'foreign', {}, {foreign}, 0}
end
if is_held_by(holder) then
  -- He did not get the answer, or asked twice; what he has begun goes on.
  begin_writing(true)
  hold(holder, lease)
  return answer('yours', lease)
elseif fields[HOLDER] then
  if ms_left(UNTIL) > 0 then
    return answer('busy', ms_left(UNTIL))
  end
  take_from_dead()
  if fields[FAILED] then
    end_writing(1, ttl)
  end
elseif fields[RETRY_AT] and ms_left(RETRY_AT) > 0 then
  return answer('busy', ms_left(RETRY_AT))
elseif not (fields[RETRY_AT] or fields[FAILED] or is_judged()) then
  return answer('renewed')
elseif not (fields[RETRY_AT] or fields[FAILED]) then
  if fields[UNPROVEN] then
    return disprove()
  elseif is_to_blame() then
    return answer('blamed')
  end
end
if fields[FAILED] then
  return answer('failed')
end
return begin()
