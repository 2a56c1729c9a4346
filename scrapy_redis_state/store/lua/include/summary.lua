-- The crawl as a whole: what replies end with, and when a crawl is over.

local function count_places()
  local places = {
    pending = redis.call('ZCARD', K.frontier), in_flight = redis.call('ZCARD', K.inflight),
    delayed = 0, suspects = 0, dead = 0,
  }
  -- Most crawls have none of these most of the time: one command in place of three.
  if redis.call('EXISTS', K.delayed, K.suspects, K.dead) > 0 then
    for _, name in ipairs({'delayed', 'suspects', 'dead'}) do
      places[name] = redis.call('ZCARD', K[name])
    end
  end
  return places
end

-- Nothing left to do, whoever may still be about to make something to do. Not while
-- somebody holds the crawl: he may mean to add more.
local function is_empty(places)
  return places.pending + places.in_flight + places.delayed + places.suspects == 0
    and crawl.seeding ~= 'open' and crawl.status ~= 'paused'
    and crawl.status ~= 'draining'
end

-- Empty for good: a crawl fed from outside alone has no start() to have ended, and is
-- empty only for now.
local function is_complete(places)
  return is_empty(places) and crawl.seeding ~= ''
end

local function is_drained(places)
  return is_empty(places) and not anyone_busy(live_since())
end

-- Flat list of 15 fields, read by position into messages' `Summary`. `places` and `live` are
-- counted here unless the caller has done so.
local function summary(worker, places, live)
  places = places or count_places()
  local best = places.pending > 0
    and redis.call('ZREVRANGE', K.frontier, 0, 0, 'WITHSCORES') or {}
  local holds_token = worker ~= '' and crawl.seed_worker == worker
  return {
    places.pending, best[2] or false, places.in_flight, places.delayed, places.suspects,
    places.dead, crawl.done, crawl.seeding,
    holds_token and crawl.seed_token or 0, live or count_live(), crawl.status, crawl.epoch,
    is_drained(places) and 1 or 0, crawl.seen_count, crawl.seen_version,
  }
end
