-- Waking idle workers. They block on a list, and each of its elements wakes one. There are
-- no more elements than requests, or a whole fleet would come for one of them; and none is
-- left when there is nothing to be had. Every call puts right what is missing, so an
-- element that went to a worker which did not need it is no loss.

-- `pending` and `live` are counted here unless the caller has done so.
local function wake_idle(pending, live)
  pending = pending or redis.call('ZCARD', K.frontier)
  if pending == 0 or crawl.status ~= 'running' then
    redis.call('UNLINK', K.wake)
    return
  end
  local wanted = math.min(pending, live or count_live(), CHUNK)
  local there = redis.call('LLEN', K.wake)
  if there > wanted then
    redis.call('UNLINK', K.wake)
    there = 0
  end
  local elements = {}
  for i = 1, wanted - there do
    elements[i] = '1'
  end
  if #elements > 0 then
    redis.call('RPUSH', K.wake, unpack(elements))
  end
end
