-- Changes to a session (see session.lua). Each raises its version.

local RECENT_MS = 10000 -- for so long it is known when a cookie was changed
local MOST_RECENT = 200 -- of more, all count as changed
local ALL = '*'

local now_ms = math.floor(now_us / 1000)
local changed = {} -- cookies that this script changes

local function note_change(field)
  if is_cookie(field) then
    changed[field] = now_ms
  end
end

-- Which cookies were changed lately, and when (server time, ms).
local function recent_changes()
  local ok, stored = pcall(cjson.decode, fields.recent or '')
  local found = {}
  for field, at in pairs(ok and type(stored) == 'table' and stored or {}) do
    if type(at) == 'number' and at > now_ms - RECENT_MS and at <= now_ms then
      found[field] = at
    end
  end
  return found
end

-- Greater than the one before, whatever the clock says.
local function next_epoch()
  return number(math.max(now_us, whole(fields.epoch) + 1))
end

-- Nothing is written yet if the server refuses this for want of memory. What only
-- deletes must not be refused: Redis allows all that follows another write.
local function begin_writing(grows)
  if not grows then
    redis.call('HDEL', key, '')
  end
  store('schema', SCHEMA)
end

-- When a cookie was changed, if it was lately.
local function changed_at(recent, field)
  return math.max(recent[field] or 0, recent[ALL] or 0)
end

local function remember_changes()
  local found, count = recent_changes(), 0
  for field, at in pairs(changed) do
    found[field] = at
  end
  for _ in pairs(found) do
    count = count + 1
  end
  if count > MOST_RECENT then
    found = {[ALL] = now_ms}
  end
  if count > 0 then
    store('recent', cjson.encode(found))
  else
    remove('recent')
  end
end

local function end_writing(count, ttl)
  remember_changes()
  store('version', number(version() + count))
  store('updated_at', string.format('%.3f', now_us / 1000000))
  touch(ttl)
end

-- A session that slow writers are to see is another one, with nothing in it.
local function start_over()
  local epoch, count = next_epoch(), version()
  redis.call('UNLINK', key)
  fields, cookies, size = {}, {}, 0
  store('schema', SCHEMA)
  store('epoch', epoch)
  store('version', number(count))
end

-- A cookie that is there already keeps its place among the others.
local function with_order(field, value, new)
  local old = cookies[field] and cookies[field].order
  return string.sub(value, 1, -2) .. ',"order":' .. number(old or new) .. '}'
end

-- Store fields (name, value, ...); how many changed, and names of those without room.
local function set_all(sets)
  local count, refused = 0, {}
  for i = 1, #sets, 2 do
    local field, value = sets[i], sets[i + 1]
    if is_cookie(field) then
      value = with_order(field, value, version() + count + 1)
    end
    local old = fields[field]
    if is_cookie(field) and has_expired(read_cookie(value)) then
      if remove(field) then
        note_change(field)
        count = count + 1
      end
    elseif size + #field + #value - (old and #field + #old or 0) > MOST_BYTES then
      refused[#refused + 1] = field
    elseif value ~= old then
      store(field, value)
      note_change(field)
      count = count + 1
    end
  end
  return count, refused
end

-- Reads the session that a response changes. Answers what is to be replied if it must not
-- be changed: nobody can read it, or it is another one than `epoch`.
local function refusal_of(epoch, ttl)
  local foreign = load_session()
  if foreign then
    return {'foreign', {}, {foreign}}
  end
  if not goes_on_from(epoch) then
    touch(ttl)
    return {'stale', content(), {}}
  end
end

-- What a response changes must belong to an epoch.
local function give_epoch()
  if not fields.epoch then
    store('epoch', next_epoch())
    store('grown', '1')
  end
end
