-- What would be handed out next; changes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 how many
-- Returns  id, entry, ...; best first

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
local found = {}
if not exists then
  return found
end
local last = math.min(tonumber(ARGV[1]), CHUNK) - 1
local ids = last < 0 and {} or redis.call('ZREVRANGE', K.frontier, 0, last)
local entries = #ids > 0 and redis.call('HMGET', K.requests, unpack(ids)) or {}
for i, id in ipairs(ids) do
  if entries[i] then
    found[#found + 1] = id
    found[#found + 1] = entries[i]
  end
end
return found
