-- The crawl hash: read once at the start, changed fields written once at the end.

local FIELDS = {
  'generation', 'token', 'status', 'epoch', 'clock', 'last_time', 'stamp',
  'finished_at', 'given', 'most_workers', 'seeding', 'seed_token', 'seed_worker',
  'seed_failures', 'done', 'suspect', 'suspect_worker',
  'lease_ms', 'max_deliveries', 'finished_ttl_ms', 'order',
  'agreed:seen', 'seen_count', 'epoch_began', 'revisit_ms', 'tidy', 'tidy_from', 'expires_at',
  'max_per_site', 'seen_version', 'keep_alive', 'sequence',
}
local NUMBERS = {
  generation = 0, epoch = 0, clock = 0, last_time = 0, stamp = 0, finished_at = 0,
  given = 0, most_workers = 0, seed_token = 0, seed_failures = 0, done = 0,
  lease_ms = 60000, max_deliveries = 3, finished_ttl_ms = 604800000,
  seen_count = 0, epoch_began = 0, revisit_ms = 0, tidy_from = 0, max_per_site = 0,
  expires_at = 0, seen_version = 0, keep_alive = 0,
}
local STEP_MS = 5000 -- what the crawl clock advances at most from one call to the next

local MOST_DIGITS = 15 -- of a sequence: Redis adds to it without fail, and Lua exactly

local crawl, changed = {}, {}
local has_sequence = true -- whether ids can be taken from it
local now, now_us -- server time, ms and µs

local function set(field, value)
  crawl[field] = value
  changed[field] = value
end

local function is_countable(text)
  return #text <= MOST_DIGITS and (text == '0' or string.find(text, '^[1-9]%d*$') ~= nil)
end

local function load_crawl()
  local values = redis.call('HMGET', K.crawl, unpack(FIELDS))
  for i, field in ipairs(FIELDS) do
    local value = values[i]
    if NUMBERS[field] then
      crawl[field] = tonumber(value) or NUMBERS[field]
    else
      crawl[field] = value or ''
    end
  end
  has_sequence = not values[#FIELDS] or is_countable(values[#FIELDS])
  local time = redis.call('TIME')
  now_us = time[1] * 1000000 + time[2]
  now = math.floor(now_us / 1000)
  if crawl.last_time == 0 then
    crawl.last_time = now
  end
  return crawl.token ~= ''
end

-- Redis refuses the first growing command of a script when it is out of memory, and
-- allows all that follow another write. What must not be refused begins with one that
-- changes nothing.
local function begin_writing()
  redis.call('HDEL', K.crawl, '')
end

-- An outage of the server, or a jump of its clock, must not expire a lease.
local function advance_clock()
  local most = math.min(STEP_MS, math.floor(crawl.lease_ms / 2))
  local step = math.max(0, math.min(now - crawl.last_time, most))
  set('clock', crawl.clock + step)
  set('last_time', now)
end

-- Names a reply. It must not follow from what is stored: a server that lost its newest
-- calls would give the same name again.
local function next_stamp()
  set('stamp', now_us)
  return crawl.stamp
end

-- `%d` is the fastest, but on a server of 32 bits it has no more than these for a number.
local HAS_LONG = string.format('%d', 9007199254740992) == '9007199254740992'
local WHOLE = HAS_LONG and '%d' or '%.0f'

local function number(value)
  return string.format(WHOLE, value)
end

-- What `make` answers for a value, made once for each.
local function remember(make)
  return setmetatable({}, {__index = function(known, value)
    known[value] = make(value)
    return known[value]
  end})
end

local function save_crawl()
  local args = {}
  for field, value in pairs(changed) do
    args[#args + 1] = field
    args[#args + 1] = type(value) == 'number' and number(value) or value
  end
  if #args > 0 then
    redis.call('HSET', K.crawl, unpack(args))
  end
  changed = {}
end
