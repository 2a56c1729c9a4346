-- What type each key has, so that nobody else's key is written to or deleted.

-- But for the crawl's own, which `open_any_crawl` looks at first.
local TYPES = {
  frontier = 'zset', requests = 'hash', inflight = 'zset', leases = 'hash',
  workers = 'zset', replies = 'hash', wake = 'list',
}
-- Of keys that most crawls lack most of the time: one command tells whether any is there.
local RARE_TYPES = {
  delayed = 'zset', suspects = 'zset', dead = 'zset', deadinfo = 'hash', seeds = 'set',
  sites = 'hash', revisits = 'zset',
}

-- Key, its type, and the type expected, if they differ.
local function wrong_type(key, expected)
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= expected then
    return {key, type, expected}
  end
end

-- Of the keys of the seen set that this call has beside the current one.
local function wrong_type_beyond(expected)
  for i = FIXED_KEYS + 1, last_seen_key do
    local wrong = wrong_type(KEYS[i], expected)
    if wrong then
      return wrong
    end
  end
end

-- A call has hundreds of shards. What is in nothing but in none of them is nothing, and to
-- say so the server looks at the type of each, and at no member.
local function wrong_shard()
  if seen.shards == 0 then
    return nil
  end
  for first = FIXED_KEYS + 1, last_seen_key, CHUNK do
    local last = math.min(first + CHUNK - 1, last_seen_key)
    if redis.pcall('SDIFF', K.seen, unpack(KEYS, first, last)).err then
      return wrong_type_beyond('set')
    end
  end
end

local function wrong_type_among(types)
  for name, expected in pairs(types) do
    local wrong = wrong_type(K[name], expected)
    if wrong then
      return wrong
    end
  end
end

-- The keys of RARE_TYPES.
local function is_any_rare()
  return redis.call('EXISTS', K.delayed, K.suspects, K.dead, K.deadinfo, K.seeds, K.sites,
    K.revisits) > 0
end

local function wrong_types()
  local wrong = wrong_type_among(TYPES) or is_any_rare() and wrong_type_among(RARE_TYPES)
  if wrong then
    return wrong
  end
  -- Another epoch's, which the call does not touch, may be what is left of another kind.
  if crawl.epoch == 0 or string.match(K.seen, ':([^:]+)$') == number(crawl.epoch) then
    return wrong_type(K.seen, seen.commands.type)
      or seen.shards == 0 and wrong_type_beyond(seen.commands.type) or nil
  end
end

-- In place of the type of the crawl's hash.
local HALF, NO_SEQUENCE = 'half imported', 'hash whose sequence is no number'

local function wrong_type_error(wrong)
  if wrong[2] == HALF then
    return redis.error_reply('IMPORTING ' .. wrong[1] .. ' is the hash of half a crawl')
  end
  return redis.error_reply(
    'WRONGTYPE ' .. wrong[1] .. ' is a ' .. wrong[2] .. ', not a ' .. wrong[3])
end

-- Reads the crawl, whatever state it is in. Answers whether there is one, and what is
-- wrong with a key, if so: then nothing may be written.
local function open_any_crawl()
  local wrong = wrong_type(K.crawl, 'hash')
  if wrong then
    return false, wrong
  end
  local exists = load_crawl()
  describe_seen()
  -- A script that breaks off there has marked pages as seen that it does not store.
  if not has_sequence then
    return exists, {K.crawl, NO_SEQUENCE, 'hash of a crawl'}
  end
  return exists, wrong_types()
end

-- The same for all that use a crawl: one of which only a part is there is none of theirs.
local function open_crawl()
  local exists, wrong = open_any_crawl()
  if not wrong and crawl.status == 'importing' then
    return exists, {K.crawl, HALF, 'hash'}
  end
  return exists, wrong
end
