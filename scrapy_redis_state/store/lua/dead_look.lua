-- Some dead letters; changes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 packed list of request ids
-- Returns  id, when it was given up (ms), packed map, ...; of those that are there

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
local letters = {}
if not exists then
  return letters
end
for _, id in ipairs(cmsgpack.unpack(ARGV[1])) do
  local info = redis.call('HGET', K.deadinfo, id)
  if info then
    add_letter(letters, id, info)
  end
end
return letters
