-- Which requests a worker gets next: the one place that chooses.

local HAND_BACK_MS = 5000 -- until a request that this worker handed back is offered again
local NO_CODE = 'no live worker can run it'

-- Leases all of a flat list: id, entry, ...
local function lease_all(popped, worker, batch)
  local holder, until_when = worker .. ':' .. number(batch), number(crawl.clock + crawl.lease_ms)
  local leases, times = {}, {}
  for i = 1, #popped, 2 do
    leases[i], leases[i + 1] = popped[i], holder
    times[i], times[i + 1] = until_when, popped[i]
  end
  call_with_all('HSET', K.leases, leases)
  call_with_all('ZADD', K.inflight, times)
end

-- Hands out `id` unless its entry is missing or this worker handed it back before.
local function hand_out(id, entry, worker, popped)
  if not entry then
    count_reaped('repaired')
    return
  end
  local refusers = string.match(entry, '^-?%d+;%d+;([^;]+);')
  if refusers and string.find(refusers, worker, 1, true) then
    -- Asked again: those that could have run it may be gone by now.
    wait_for_others(id, worker, HAND_BACK_MS, NO_CODE, {split_entry(entry)})
    return
  end
  popped[#popped + 1] = id
  popped[#popped + 1] = entry
end

local function pop_from(key, count, worker, batch)
  local popped, ids = {}, {}
  local found = redis.call('ZPOPMAX', key, count)
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]
  end
  if #ids > 0 then
    local entries = redis.call('HMGET', K.requests, unpack(ids))
    for i, id in ipairs(ids) do
      hand_out(id, entries[i], worker, popped)
    end
    lease_all(popped, worker, batch)
  end
  return popped
end

-- Whether this is the worker that takes the suspects, one after the other: there is one
-- at a time, and it is given nothing else, so that suspects need not wait for a frontier
-- that is never empty.
local function takes_suspects(worker)
  if redis.call('ZCARD', K.suspects) == 0 then
    return false
  end
  local taker = crawl.suspect_worker
  if taker ~= worker and taker ~= '' and is_live(redis.call('ZSCORE', K.workers, taker)) then
    return false
  end
  set('suspect_worker', worker)
  return true
end

-- Flat list: id, entry, id, entry, ... A suspect comes alone, to a worker that holds
-- nothing else, so that whatever it does to its worker it does to itself alone.
local function pop(worker, batch, want, idle)
  if want < 1 or crawl.status ~= 'running' then
    return {}
  end
  if crawl.suspect ~= '' then
    if crawl.suspect_worker == worker then
      return {}
    end
  elseif takes_suspects(worker) then
    local suspect = idle and pop_from(K.suspects, 1, worker, batch) or {}
    set('suspect', suspect[1] or '')
    return suspect
  end
  return pop_from(K.frontier, math.min(want, CHUNK), worker, batch)
end

-- What a repeated batch popped, as far as it is still leased under it.
local function still_leased(ids, worker, batch)
  local popped = {}
  local mine = worker .. ':' .. number(batch)
  for _, id in ipairs(ids) do
    if redis.call('HGET', K.leases, id) == mine then
      local entry = redis.call('HGET', K.requests, id)
      if entry then
        popped[#popped + 1] = id
        popped[#popped + 1] = entry
      end
    end
  end
  return popped
end
