-- What no call of ours leaves behind, but another program may: half of an entry. Looked
-- for slice by slice, as only the whole hash or set would tell of it.

local function is_placed(id)
  for _, key in ipairs({K.frontier, K.inflight, K.delayed, K.suspects}) do
    if redis.call('ZSCORE', key, id) then
      return true
    end
  end
  return false
end

-- key, command that scans it, and `mend(member)`, which answers whether it was needed
local SWEEPS = {
  {K.requests, 'HSCAN', function(id)
    if is_placed(id) then
      return false
    end
    release(id, '')
    return true
  end},
  {K.leases, 'HSCAN', function(id)
    if redis.call('ZSCORE', K.inflight, id) then
      return false
    end
    end_lease(id)
    return true
  end},
  {K.deadinfo, 'HSCAN', function(id)
    return redis.call('ZADD', K.dead, 'NX', now, id) == 1
  end},
  {K.dead, 'ZSCAN', function(id)
    return redis.call('HEXISTS', K.deadinfo, id) == 0 and redis.call('ZREM', K.dead, id) == 1
  end},
}

-- Goes on at `position`, "<number of the sweep>:<cursor>", and answers the next one. A
-- small hash is scanned whole, whatever the limit.
local function sweep(position, limit)
  local number, cursor = string.match(position, '^(%d+):(%d+)$')
  local key, command, mend = unpack(SWEEPS[tonumber(number)])
  local scanned = redis.call(command, key, cursor, 'COUNT', limit)
  for i = 1, #scanned[2], 2 do
    if mend(scanned[2][i]) then
      reaped.repaired = reaped.repaired + 1
    end
  end
  if scanned[1] == '0' then
    number = number % #SWEEPS + 1
  end
  return number .. ':' .. scanned[1]
end
