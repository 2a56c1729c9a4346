-- Begin to fill a crawl with what another was; nobody can use it before import_end.lua.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 token of the import  2 packed list of fields of its hash: name, value, ...
-- Returns  status (ok, exists, importing), with exists: the key that is there

-- @include keys
-- @include crawl

local token, fields = ARGV[1], cmsgpack.unpack(ARGV[2])

if redis.call('TYPE', K.crawl).ok == 'hash' and redis.call('HGET', K.crawl, 'status') == 'importing' then
  return {'importing', K.crawl}
end
for name, key in pairs(K) do
  if redis.call('TYPE', key).ok ~= 'none' then
    return {'exists', key}
  end
end
load_crawl()
fields[#fields + 1] = 'token'
fields[#fields + 1] = token
fields[#fields + 1] = 'status'
fields[#fields + 1] = 'importing'
fields[#fields + 1] = 'last_time'
fields[#fields + 1] = number(now)
redis.call('HSET', K.crawl, unpack(fields))
return {'ok', ''}
