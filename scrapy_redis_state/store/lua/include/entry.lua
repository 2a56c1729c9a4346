-- Entries: "<priority>;<deliveries>;<workers that handed it back>;" and the payload.

local NOBODY = '-' -- in place of a worker that handed it back: a delayed suspect

local HEAD = '^(-?%d+);(%d+);([^;]*);'

-- priority, deliveries, handed back by, payload; nil for what is not an entry
local function split_entry(entry)
  local _, last, priority, deliveries, refusers = string.find(entry, HEAD)
  -- A number that long is garbage, and no score.
  if not last or #priority > 17 then
    return nil
  end
  return priority, tonumber(deliveries), refusers, string.sub(entry, last + 1)
end

local function join_entry(priority, deliveries, refusers, payload)
  return priority .. ';' .. deliveries .. ';' .. refusers .. ';' .. payload
end

local LAST_ID = 99999999999999 -- 14 digits: a string that size costs Redis 16 bytes
local ID_FORMAT = HAS_LONG and '%014d' or '%014.0f'

-- ZPOPMAX takes the last of equal scores in byte order.
local function id_of(sequence)
  if crawl.order ~= 'lifo' then
    sequence = LAST_ID - sequence
  end
  return string.format(ID_FORMAT, sequence)
end

-- Takes so many numbers for `id_of`; answers the last of them.
local function reserve_ids(count)
  return redis.call('HINCRBY', K.crawl, 'sequence', count)
end
