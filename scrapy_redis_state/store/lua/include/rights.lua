-- Whether the user may run what the scripts of a crawl run, asked without changing
-- anything: else a crawl would break off at the first command that is missed.

-- On keys of another type, which answer at once, where the answer could be long.
local READING = {
  {'EXISTS', K.crawl}, {'PTTL', K.crawl}, {'HGET', K.crawl, ''}, {'HMGET', K.crawl, ''},
  {'HEXISTS', K.crawl, ''}, {'HGETALL', K.frontier}, {'HKEYS', K.frontier},
  {'HSCAN', K.frontier, 0}, {'HLEN', K.frontier}, {'SCARD', K.crawl}, {'SDIFF', K.frontier},
  {'SISMEMBER', K.seeds, ''}, {'SMISMEMBER', K.seeds, ''}, {'LLEN', K.frontier},
  {'ZCARD', K.frontier}, {'ZCOUNT', K.frontier, 0, 0}, {'ZRANGE', K.crawl, 0, 0},
  {'ZRANGEBYSCORE', K.crawl, 0, 0}, {'ZREVRANGE', K.crawl, 0, 0},
  {'ZSCAN', K.crawl, 0}, {'ZSCORE', K.frontier, ''},
}
-- With words for numbers, which are refused before anything else is looked at, or on
-- what is never there.
local WRITING_NOTHING = {
  {'HSET', K.crawl, '', '', ''}, {'HINCRBY', K.crawl, '', 'x'}, {'PEXPIRE', K.crawl, 'x'},
  {'ZADD', K.frontier, 'x', ''}, {'ZREM', K.frontier, ''}, {'ZPOPMAX', K.frontier, 0},
  {'ZREMRANGEBYRANK', K.frontier, 'x', 'x'}, {'SREM', K.seeds, ''},
}
local OF_BLOOM = {
  {'BF.EXISTS', K.crawl, ''}, {'BF.MEXISTS', K.crawl, ''},
  {'BF.RESERVE', K.crawl, 'x', 'x'},
}

local function try(missed, command, key, ...)
  return note(missed, command, redis.pcall(command, key, ...))
end

local function try_all(missed, commands)
  for _, command in ipairs(commands) do
    try(missed, unpack(command))
  end
end

-- These have no form that changes nothing, so they are tried on a key of another type,
-- which refuses members, or on one that is not there.
local function try_what_writes(missed, has_bloom)
  if try(missed, 'HDEL', K.crawl, '') and try(missed, 'HSETNX', K.crawl, '', '') then
    for _, add in ipairs({'SADD', 'RPUSH'}) do
      try(missed, add, K.crawl, '')
    end
    for _, add in ipairs(has_bloom and {'BF.ADD', 'BF.MADD'} or {}) do
      try(missed, add, K.crawl, '')
    end
    redis.call('HDEL', K.crawl, '')
  end
  for _, key in pairs(K) do
    if redis.call('TYPE', key).ok == 'none' then
      return try_all(missed, {{'UNLINK', key}, {'PERSIST', key}})
    end
  end
end

-- Names of commands; empty if all may be run. What the keys hold does not matter.
local function missed_commands(has_bloom)
  local missed = {}
  try(missed, 'TYPE', K.crawl)
  if #missed == 0 then
    note(missed, 'TIME', redis.pcall('TIME'))
    try_all(missed, READING)
    try_all(missed, WRITING_NOTHING)
    try_all(missed, has_bloom and OF_BLOOM or {})
    try_what_writes(missed, has_bloom)
  end
  return missed
end
