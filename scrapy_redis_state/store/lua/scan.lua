-- A slice of all requests that are not done, wherever they are; changes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 cursor  2 about how many
-- Returns  next cursor, "0" at the end; id, entry, ...

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types

local exists, wrong = open_crawl()
if wrong then
  return wrong_type_error(wrong)
end
if not exists then
  return {'0', {}}
end
return redis.call('HSCAN', K.requests, ARGV[1], 'COUNT', ARGV[2])
