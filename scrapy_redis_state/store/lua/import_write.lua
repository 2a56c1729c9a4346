-- Put a part of another crawl into one that import_begin.lua has begun.
--
-- KEYS     all keys of the crawl, see include/keys.lua; then those of its seen set that
--          are named below
-- ARGV     1 token of the import  2 packed list of records, each a list: what it is, then
--          frontier, suspects, delayed: id, score, entry; dead: id, score, information;
--          seen: number of a key, members; bloom: number of a key, iterator, data;
--          seeds: members; sites: site, pages, ...; revisits: time, fingerprint, ...
-- Returns  how many there were not before, of each record; or nothing, if the crawl is
--          not, or no more, that of this import

-- @include keys
-- @include crawl

local token, records = ARGV[1], cmsgpack.unpack(ARGV[2])

-- A file of a crawl that changed may have a request twice, and it has one place.
local function is_here(id)
  return redis.call('HEXISTS', K.requests, id) == 1
    or redis.call('HEXISTS', K.deadinfo, id) == 1
end

local function place(name, id, score, entry)
  if is_here(id) then
    return 0
  end
  redis.call('HSET', K.requests, id, entry)
  return redis.call('ZADD', K[name], score, id)
end

local write = {}

function write.dead(id, score, info)
  if is_here(id) then
    return 0
  end
  redis.call('HSET', K.deadinfo, id, info)
  return redis.call('ZADD', K.dead, score, id)
end

function write.seen(number, members)
  return redis.call('SADD', KEYS[number], unpack(members))
end

function write.bloom(number, iterator, data)
  redis.call('BF.LOADCHUNK', KEYS[number], iterator, data)
  return 1
end

function write.seeds(members)
  return redis.call('SADD', K.seeds, unpack(members))
end

function write.sites(pairs_given)
  return redis.call('HSET', K.sites, unpack(pairs_given))
end

function write.revisits(pairs_given)
  return redis.call('ZADD', K.revisits, unpack(pairs_given))
end

for _, name in ipairs({'frontier', 'suspects', 'delayed'}) do
  write[name] = function(...)
    return place(name, ...)
  end
end

if not load_crawl() or crawl.token ~= token or crawl.status ~= 'importing' then
  return {}
end
local added = {}
for i, record in ipairs(records) do
  added[i] = write[record[1]](unpack(record, 2))
end
set('last_time', now)
save_crawl()
return added
