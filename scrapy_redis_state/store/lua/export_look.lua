-- How a crawl stands, for whoever copies it step by step; changes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 server time (ms) from which on revisits count; 0: from now on
-- Returns  the crawl's hash (field, value, ...), empty if there is none; sizes of
--          frontier, in flight, delayed, suspects, dead letters, requests, seeds, sites,
--          revisits; number of live workers; 1 if one may have work that is not
--          stored yet, else 0; server time (ms)

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include workers

local function sizes(since)
  return {
    redis.call('ZCARD', K.frontier), redis.call('ZCARD', K.inflight),
    redis.call('ZCARD', K.delayed), redis.call('ZCARD', K.suspects),
    redis.call('ZCARD', K.dead), redis.call('HLEN', K.requests),
    redis.call('SCARD', K.seeds), redis.call('HLEN', K.sites),
    redis.call('ZCOUNT', K.revisits, '(' .. number(since), '+inf'),
  }
end

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {{}, {}, 0, 0, now}
end
-- Live workers call each second. The crawl clock counts 5 s from one call to the next at
-- most, and so takes those that died together for alive, however long ago it was.
local silent = now - crawl.last_time >= crawl.lease_ms
advance_clock()
local live = silent and 0 or count_live()
local busy = live > 0 and anyone_busy(live_since())
local since = tonumber(ARGV[1])
return {redis.call('HGETALL', K.crawl), sizes(since > 0 and since or now), live,
  busy and 1 or 0, now}
