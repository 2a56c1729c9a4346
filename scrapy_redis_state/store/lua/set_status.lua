-- Pause a crawl, drain it, or have it go on.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 status wanted, "paused", "draining" or "running"
-- Returns  status that it had (running, paused, draining, finished, none); a finished
--          crawl stays so, and one that drains is not paused

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include workers
-- @include wake

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return 'none'
end
local before, wanted = crawl.status, ARGV[1]
local stays = before == 'finished' or before == wanted
  or (before == 'draining' and wanted == 'paused')
if not stays then
  begin_writing()
  set('status', wanted)
  wake_idle()
  save_crawl()
end
return before
