-- Worker records: last beat in `workers`; "<busy><packed record>" in `replies`.

local NO_WORK = {0, 0, 0, 0, 0, 0, 0} -- the account of a worker that has just joined

local function is_live(beat)
  return beat and tonumber(beat) + crawl.lease_ms > crawl.clock
end

local function live_since()
  return '(' .. number(crawl.clock - crawl.lease_ms)
end

local function count_live()
  return redis.call('ZCOUNT', K.workers, live_since(), '+inf')
end

local function read_record(worker)
  local record = redis.call('HGET', K.replies, worker)
  if not record then
    return nil
  end
  local batch, stamp, complete, answers, popped, account =
    unpack(cmsgpack.unpack(string.sub(record, 2)))
  return {batch = batch, stamp = stamp, complete = complete == 1, answers = answers,
    popped = popped, account = account or NO_WORK, busy = string.sub(record, 1, 1) == '1'}
end

-- `account` is that of pace.lua.
local function write_record(worker, busy, batch, stamp, complete, answers, popped, account)
  redis.call('HSET', K.replies, worker, (busy and '1' or '0')
    .. cmsgpack.pack({batch, stamp, complete and 1 or 0, answers, popped, account}))
end

local function remove_worker(worker)
  redis.call('ZREM', K.workers, worker)
  redis.call('HDEL', K.replies, worker, worker .. ':info')
  for _, role in ipairs({'seed_worker', 'suspect_worker'}) do
    if crawl[role] == worker then
      set(role, '')
    end
  end
end

local function release_all(worker)
  local leases = redis.call('HGETALL', K.leases)
  local mine = worker .. ':'
  for i = 1, #leases, 2 do
    if string.sub(leases[i + 1], 1, #mine) == mine then
      release(leases[i], worker)
    end
  end
end

-- Whether a worker whose last beat was at `since` or later says that it has work which
-- the server cannot see.
local function anyone_busy(since)
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', K.workers, since, '+inf')) do
    local record = redis.call('HGET', K.replies, worker)
    if record and string.sub(record, 1, 1) == '1' then
      return true
    end
  end
  return false
end
