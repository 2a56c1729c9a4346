-- Dead letters, as tools are told of them and as they name them again.

-- Adds id, when it was given up, and what is kept of it.
local function add_letter(letters, id, info)
  letters[#letters + 1] = id
  letters[#letters + 1] = redis.call('ZSCORE', K.dead, id) or '0'
  letters[#letters + 1] = info
end

-- Whether it is still the letter that a tool has seen: the id is the same when the
-- request was handed out again and given up once more.
local function is_same_letter(id, given_up)
  return (redis.call('ZSCORE', K.dead, id) or '0') == given_up
end

local function remove_letter(id)
  redis.call('ZREM', K.dead, id)
  return redis.call('HDEL', K.deadinfo, id)
end
