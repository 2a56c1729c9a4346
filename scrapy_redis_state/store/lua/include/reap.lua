-- What time brings: delayed requests come due, leases of dead workers end.

-- What this call did: requests of dead workers put back, or given up; half entries mended.
local reaped = {requeued = 0, buried = 0, repaired = 0}

local function count_reaped(outcome)
  reaped[outcome] = reaped[outcome] + 1
end

-- Answers how many are handed out again.
local function promote(limit)
  local due = redis.call('ZRANGEBYSCORE', K.delayed, '-inf', now, 'LIMIT', 0, limit)
  local promoted = 0
  for _, id in ipairs(due) do
    redis.call('ZREM', K.delayed, id)
    -- A delayed id has no lease, so this only looks at its entry.
    local found = take_back(id, '', function(priority, deliveries, refusers)
      -- One that was handed back or put off, unlike one that failed, may be a suspect.
      local suspect = refusers ~= '' and deliveries >= crawl.max_deliveries - 1
      redis.call('ZADD', suspect and K.suspects or K.frontier, priority, id)
    end)
    if found then
      promoted = promoted + 1
    else
      count_reaped('repaired')
    end
  end
  return promoted
end

local function look_again(id, lease)
  local worker = lease and string.match(lease, '^(.*):') or ''
  local beat = redis.call('ZSCORE', K.workers, worker)
  if is_live(beat) then
    redis.call('ZADD', K.inflight, number(beat + crawl.lease_ms), id)
  elseif redis.call('HEXISTS', K.requests, id) == 0 then
    end_lease(id)
    count_reaped('repaired')
  else
    count_reaped(lose(id, worker) and 'buried' or 'requeued')
  end
end

local function reap(limit)
  local due = redis.call('ZRANGEBYSCORE', K.inflight, '-inf', number(crawl.clock),
    'LIMIT', 0, limit)
  if #due == 0 then
    return
  end
  local leases = redis.call('HMGET', K.leases, unpack(due))
  for i, id in ipairs(due) do
    look_again(id, leases[i])
  end
end
