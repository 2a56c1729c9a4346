-- A slice of the dead letters, in no order; changes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 cursor  2 about how many
-- Returns  next cursor, "0" at the end; id, when it was given up (ms), packed map, ...

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include letters

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {'0', {}}
end
local scanned = redis.call('HSCAN', K.deadinfo, ARGV[1], 'COUNT', ARGV[2])
local letters = {}
for i = 1, #scanned[2], 2 do
  add_letter(letters, scanned[2][i], scanned[2][i + 1])
end
return {scanned[1], letters}
