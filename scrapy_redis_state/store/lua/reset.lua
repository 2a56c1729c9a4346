-- Start a crawl over: a new generation with nothing in it.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 epoch  2 token of the new generation  3 "force": also while workers live
-- Returns  status (ok, epoch, busy, none), epoch or number of live workers, seen set

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include generation
-- @include workers

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {'none', 0}
end
if tonumber(ARGV[1]) ~= crawl.epoch then
  return {'epoch', crawl.epoch, crawl['agreed:seen']}
end
advance_clock()
if ARGV[3] ~= 'force' and count_live() > 0 then
  save_crawl()
  return {'busy', count_live()}
end
open_generation(ARGV[2])
save_crawl()
return {'ok', crawl.epoch}
