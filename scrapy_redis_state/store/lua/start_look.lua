-- Look at the messages of start keys; changes nothing.
--
-- KEYS     the start keys
-- ARGV     1 how many messages at most
-- Returns  number of the first key that has any (from 1; 0: none has),
--          message, score, ... (the score is empty but for a sorted set)

local most = tonumber(ARGV[1])

local READ = {
  list = function(key)
    return redis.call('LRANGE', key, 0, most - 1)
  end,
  set = function(key)
    return redis.call('SRANDMEMBER', key, most)
  end,
  zset = function(key)
    return redis.call('ZREVRANGE', key, 0, most - 1, 'WITHSCORES')
  end,
}

for number, key in ipairs(KEYS) do
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' then
    if not READ[type] then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. type
        .. ', not a list, set or zset')
    end
    local found = READ[type](key)
    if type == 'zset' then
      return {number, found}
    end
    local messages = {}
    for _, message in ipairs(found) do
      messages[#messages + 1] = message
      messages[#messages + 1] = ''
    end
    return {number, messages}
  end
end
return {0, {}}
