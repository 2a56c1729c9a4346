-- Requests that need code which some workers do not have.

local function everyone_refused(refusers)
  for _, live in ipairs(redis.call('ZRANGEBYSCORE', K.workers, live_since(), '+inf')) do
    if not string.find(refusers, live, 1, true) then
      return false
    end
  end
  return true
end

-- Later, for a worker that has not handed it back; a dead letter when there is none.
local function wait_for_others(id, worker, delay, reason, entry)
  local priority, deliveries, refusers, payload = unpack(entry)
  if everyone_refused(refusers) then
    redis.call('HDEL', K.requests, id)
    add_dead(id, priority, deliveries, payload, reason, worker)
    return
  end
  redis.call('HSET', K.requests, id, join_entry(priority, deliveries, refusers, payload))
  redis.call('ZADD', K.delayed, now + delay, id)
end
