-- A look at a crawl; changes nothing, and takes as long with millions queued as with
-- none.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     none
-- Returns  generation, given (0 or 1), seen set,
--          workers (id, ms since last beat on the crawl clock, info as JSON, live (0 or 1),
--          busy (0 or 1), ms since its last call by server time, account of pace.lua; ...),
--          summary, key, its type, the type expected, of a key that is not ours,
--          server time (ms), ms since the last call of a worker (-1: there was none),
--          lease (ms), at least so old is the oldest lease (ms, -1: there is none),
--          leases, failures of start(), the last of them, packed samples of pace.lua

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include workers
-- @include summary

local exists, wrong = open_any_crawl()
if wrong or not exists then
  return {0, 0, '', {}, {}, wrong or {}, 0, 0, 0, 0, 0, 0, '', ''}
end
advance_clock()

local function ms_since(stamp)
  return stamp == 0 and -1 or math.max(0, math.floor(now - stamp / 1000))
end

-- A record that something else has overwritten must not keep the rest from being seen.
local function record_of(worker)
  local ok, record = pcall(read_record, worker)
  return ok and record or {stamp = 0, busy = false, account = NO_WORK}
end

local workers = {}
local beats = redis.call('ZRANGE', K.workers, 0, -1, 'WITHSCORES')
for i = 1, #beats, 2 do
  local id, record = beats[i], record_of(beats[i])
  for _, value in ipairs({
      id, number(crawl.clock - beats[i + 1]),
      redis.call('HGET', K.replies, id .. ':info') or '{}',
      is_live(beats[i + 1]) and 1 or 0, record.busy and 1 or 0, ms_since(record.stamp),
      record.account}) do
    workers[#workers + 1] = value
  end
end

-- A lease is looked at one lease after it began, or after its worker's beat at the time of
-- the last look.
local function oldest_lease()
  local first = redis.call('ZRANGE', K.inflight, 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, crawl.clock - first[2] + crawl.lease_ms) or -1
end

return {crawl.generation, crawl.given, crawl['agreed:seen'], workers, summary(''), {},
  now, ms_since(crawl.stamp), crawl.lease_ms, oldest_lease(),
  redis.call('HLEN', K.leases), crawl.seed_failures,
  redis.call('HGET', K.crawl, 'seed_error') or '',
  redis.call('HGET', K.crawl, 'samples') or ''}
