-- The hash of one session (see keys.py): read whole at the start, changed field by field.

local key = KEYS[1]
local SCHEMA = '1'
local MOST_BYTES = 1048576      -- of all fields of a session together
local FORGOTTEN_MS = 86400000   -- what keeps an empty session when only cookies would
local FOR_EVER_MS = 1e14

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = now_us / 1000000 -- by which cookies expire

-- A cookie was dated by the clock of the program that got it. A server whose clock is
-- ahead must not take it away as soon as it comes; nobody sends what is over by his own.
local function use_clock_of(caller)
  now = math.min(now, tonumber(caller) or now)
end

local fields, size = {}, 0
local cookies = {} -- field -> its cookie's expires and order

local LARGEST = 9007199254740991 -- of the whole numbers that are exact

local function number(value)
  return string.format('%.0f', value)
end

-- The whole number in a text; 0 if it holds another, or none: anybody may have written it.
local function whole(text)
  local value = tonumber(text)
  return value and value >= 0 and value <= LARGEST and math.floor(value) or 0
end

local function is_cookie(field)
  return string.sub(field, 1, 7) == 'cookie:'
end

-- Other programs write here too: what is no cookie must not end the script.
local function read_cookie(text)
  local ok, cookie = pcall(cjson.decode, text)
  if not ok or type(cookie) ~= 'table' then
    return {}
  end
  local function number_of(value)
    return type(value) == 'number' and value == value and value or nil
  end
  local order = number_of(cookie.order)
  return {
    expires = number_of(cookie.expires),
    order = order and math.abs(order) <= LARGEST and order or nil,
    ok = true,
  }
end

local function has_expired(cookie)
  return cookie.expires ~= nil and cookie.expires <= now
end

local function put(field, value)
  size = size + #field + #value
  fields[field] = value
  if is_cookie(field) then
    cookies[field] = read_cookie(value)
  end
end

-- Why what is stored is none of our business; nil if it is.
local function load_session()
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= 'hash' then
    return 'the key holds a ' .. type .. ', not a hash'
  end
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    put(flat[i], flat[i + 1])
  end
  local schema = fields.schema
  if schema and schema ~= SCHEMA then
    local shown = string.match(schema, '^%d+$') and #schema <= 20 and ' ' .. schema or ''
    return 'its schema' .. shown .. ' is not known here'
  end
end

local function exists()
  return next(fields) ~= nil
end

-- Whether it is still the session that somebody knew, by its epoch. Empty: there was none,
-- and what has grown out of responses since then goes on from that. "any": it need not be.
local function goes_on_from(epoch)
  return epoch == 'any' or not fields.epoch or fields.epoch == epoch
    or (epoch == '' and fields.grown ~= nil)
end

local function version()
  return whole(fields.version)
end

-- Whether there was such a field.
local function remove(field)
  local value = fields[field]
  if not value then
    return false
  end
  redis.call('HDEL', key, field)
  size = size - #field - #value
  fields[field], cookies[field] = nil, nil
  return true
end

local function drop_expired()
  local expired = {}
  for field, cookie in pairs(cookies) do
    if has_expired(cookie) then
      expired[#expired + 1] = field
    end
  end
  for _, field in ipairs(expired) do
    remove(field)
  end
end

local function store(field, value)
  local old = fields[field]
  if old then
    size = size - #field - #old
  end
  put(field, value)
  redis.call('HSET', key, field, value)
end

local OWN = {
  schema = true, epoch = true, grown = true, version = true, updated_at = true,
  recent = true,
}

-- About the session, and no part of what somebody stored.
local function is_own(field)
  return OWN[field] or string.sub(field, 1, 8) == 'renewal:'
end

-- Has neither cookies nor anything else that somebody stored.
local function is_empty()
  for field in pairs(fields) do
    if not is_own(field) then
      return false
    end
  end
  return true
end

-- How long the cookies want the session to be kept.
local function cookies_ms()
  local longest
  for _, cookie in pairs(cookies) do
    if cookie.ok then
      longest = math.max(longest or 0, cookie.expires or math.huge)
    end
  end
  if longest then
    return (longest - now) * 1000
  end
  return is_empty() and FORGOTTEN_MS or math.huge
end

-- The session was used; `ttl` in seconds, 0: as its cookies say.
local function touch(ttl)
  local ms = ttl > 0 and ttl * 1000 or math.ceil(cookies_ms())
  if fields['renewal:until'] then
    -- Or a second one would begin beside the first.
    ms = math.max(ms, whole(fields['renewal:until']) - now_us / 1000)
  end
  if ms < FOR_EVER_MS then
    redis.call('PEXPIRE', key, number(math.max(math.ceil(ms), 1)))
  else
    redis.call('PERSIST', key)
  end
end

local function content()
  local flat = {}
  for field, value in pairs(fields) do
    flat[#flat + 1] = field
    flat[#flat + 1] = value
  end
  return flat
end
