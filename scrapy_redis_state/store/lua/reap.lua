-- The bounded reap, without a worker: for processes whose own crawl is idle.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 how many delayed and how many leased requests to look at
--          2 where to go on looking for half entries
-- Returns  requeued, buried, repaired, promoted, where to go on,
--          where tidy.lua has something to do, or nothing, summary

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry
-- @include place
-- @include workers
-- @include reap
-- @include prune
-- @include sweep
-- @include summary
-- @include wake

local limit, position = tonumber(ARGV[1]), ARGV[2]
local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {0, 0, 0, 0, position, '', {}}
end
if crawl.status == 'finished' then
  return {0, 0, 0, 0, position, next_to_tidy(), {}}
end
advance_clock()
-- Marks the script as writing before anything grows, so that a full server cannot
-- stop it half-way.
begin_writing()
local promoted = promote(limit)
reap(limit)
position = sweep(position, limit)
prune_workers()
forget_revisits(10 * limit)
wake_idle()
save_crawl()
return {reaped.requeued, reaped.buried, reaped.repaired, promoted, position,
  next_to_tidy(), summary('')}
