-- Forget some dead letters.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 packed list: id and when it was given up, as told, of each letter
-- Returns  how many were there

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
local dropped = 0
if not exists then
  return dropped
end
for _, letter in ipairs(cmsgpack.unpack(ARGV[1])) do
  if is_same_letter(letter[1], letter[2]) then
    dropped = dropped + remove_letter(letter[1])
  end
end
return dropped
