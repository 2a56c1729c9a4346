-- What is kept for some time only, and removed by whoever reaps.

-- Where the pages of a site are limited, those that come again are not to be counted again.
local function forget_revisits(limit)
  if crawl.max_per_site > 0 then
    return
  end
  local due = redis.call('ZCOUNT', K.revisits, '-inf', now)
  if due > 0 then
    redis.call('ZREMRANGEBYRANK', K.revisits, 0, math.min(due, limit) - 1)
  end
end

-- By then every lease it held has been looked at.
local FORGET_AFTER_LEASES = 10

local function prune_workers()
  local silent = redis.call('ZRANGEBYSCORE', K.workers, '-inf',
    number(crawl.clock - FORGET_AFTER_LEASES * crawl.lease_ms), 'LIMIT', 0, 100)
  for _, worker in ipairs(silent) do
    remove_worker(worker)
  end
end
