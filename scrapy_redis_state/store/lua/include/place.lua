-- Where a request goes when its lease ends: back, later, suspect, or dead.

local function end_leases(ids)
  call_with_all('ZREM', K.inflight, ids)
  call_with_all('HDEL', K.leases, ids)
  if crawl.suspect == '' then
    return
  end
  for _, id in ipairs(ids) do
    if crawl.suspect == id then
      set('suspect', '')
    end
  end
end

local function end_lease(id)
  end_leases({id})
end

local function add_dead(id, priority, deliveries, payload, reason, worker)
  redis.call('ZADD', K.dead, now, id)
  redis.call('HSET', K.deadinfo, id, cmsgpack.pack({
    priority = tonumber(priority), deliveries = deliveries, payload = payload,
    reason = reason, worker = worker,
  }))
end

-- Ends the lease on `id` and calls `place(priority, deliveries, refusers, payload)`.
-- Answers false for an id without an entry; an entry that is none becomes a dead letter.
local function take_back(id, worker, place)
  local was_suspect = crawl.suspect == id
  end_lease(id)
  local entry = redis.call('HGET', K.requests, id)
  if not entry then
    return false
  end
  local priority, deliveries, refusers, payload = split_entry(entry)
  if not priority then
    redis.call('HDEL', K.requests, id)
    add_dead(id, '0', 0, entry, 'not an entry of this version', worker)
    return true
  end
  place(priority, deliveries, refusers, payload, was_suspect)
  return true
end

local function bury(id, worker, reason)
  return take_back(id, worker, function(priority, deliveries, _, payload)
    redis.call('HDEL', K.requests, id)
    add_dead(id, priority, deliveries, payload, reason, worker)
  end)
end

local function release(id, worker)
  return take_back(id, worker, function(priority, _, _, _, was_suspect)
    redis.call('ZADD', was_suspect and K.suspects or K.frontier, priority, id)
  end)
end

-- Later, and no delivery counted. A suspect stays one, see `promote`.
local function put_off(id, worker, delay)
  take_back(id, worker, function(priority, deliveries, refusers, payload, was_suspect)
    if was_suspect and refusers == '' then
      redis.call('HSET', K.requests, id, join_entry(priority, deliveries, NOBODY, payload))
    end
    redis.call('ZADD', K.delayed, now + delay, id)
  end)
end

-- Counts a delivery, then `place(priority, deliveries)`; dead at the last one, unless
-- `is_spared`, told whether it was the suspect, says otherwise. Answers whether it was
-- buried, as garbage always is.
local function count_delivery(id, worker, reason, is_spared, place)
  local buried = true
  take_back(id, worker, function(priority, deliveries, refusers, payload, was_suspect)
    deliveries = deliveries + 1
    if deliveries >= crawl.max_deliveries and not is_spared(was_suspect) then
      redis.call('HDEL', K.requests, id)
      add_dead(id, priority, deliveries, payload, reason, worker)
      return
    end
    buried = false
    redis.call('HSET', K.requests, id, join_entry(priority, deliveries, refusers, payload))
    place(priority, deliveries)
  end)
  return buried
end

local function fail(id, worker, delay, reason)
  local function is_spared()
    return false
  end
  return count_delivery(id, worker, reason, is_spared, function()
    redis.call('ZADD', K.delayed, now + delay, id)
  end)
end

-- The worker that held it died: a page that kills its worker must not be handed out
-- beside others for ever, so before its last delivery it becomes a suspect. Only one that
-- was alone with its worker is to blame for its death.
local function lose(id, worker)
  local reason = 'its worker died or fell silent'
  local function is_spared(was_suspect)
    return not was_suspect
  end
  return count_delivery(id, worker, reason, is_spared, function(priority, deliveries)
    local last = deliveries >= crawl.max_deliveries - 1
    redis.call('ZADD', last and K.suspects or K.frontier, priority, id)
  end)
end
