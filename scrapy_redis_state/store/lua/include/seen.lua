-- The seen set: which fingerprints are new. Of which kind it is, crawl['agreed:seen']
-- says (see seen.py): exact, bloom:<capacity>:<error rate> or packed:<capacity>, and
-- "+revisits" if pages are forgotten after some time.
--
-- A fingerprint is bytes; of a packed set "<number of a key>:<integer>". With revisits
-- the sets of the epochs before count too, and their KEYS follow.

local EARLIER_EPOCHS, PER_SHARD = 2, 380 -- as in seen.py
local BLOOM_GROWTH = 2 -- each filter that is added is twice as large as the last

local COMMANDS = {
  exact = {has = 'SISMEMBER', add = 'SADD', type = 'set'},
  packed = {has = 'SISMEMBER', add = 'SADD', type = 'none'},
  bloom = {has = 'BF.EXISTS', add = 'BF.ADD', type = 'MBbloom--'},
}

local seen -- what the text says, see describe_seen

local function describe_seen()
  local spec = crawl['agreed:seen'] == '' and 'exact' or crawl['agreed:seen']
  local kind = string.match(spec, '^%a+')
  local capacity, error_rate = string.match(spec, ':(%d+):?([%d.e-]*)')
  local revisits = string.find(spec, '+revisits', 1, true)
  seen = {
    kind = kind,
    -- Of a later version: refused at the join.
    commands = COMMANDS[kind] or COMMANDS.exact,
    earlier = revisits and EARLIER_EPOCHS or 0,
    shards = kind == 'packed' and math.ceil(capacity / PER_SHARD) or 0,
    capacity = capacity, error_rate = error_rate,
  }
end

-- The key of this epoch, the number before that of the next earlier one, and the member.
local function locate(fingerprint)
  if seen.kind ~= 'packed' then
    return K.seen, FIXED_KEYS, fingerprint
  end
  local number, member = string.match(fingerprint, '^(%d+):(%-?%d+)$')
  return KEYS[tonumber(number)], tonumber(number), member
end

-- Whether the call has all keys that a fingerprint may be in.
local function has_keys_of(text)
  if text == '' then
    return true
  elseif seen.kind ~= 'packed' then
    return FIXED_KEYS + seen.earlier <= last_seen_key
  end
  local number = string.match(text, '^(%d+):%-?%d+$')
  return number and tonumber(number) + seen.earlier <= last_seen_key
end

-- Redis booleans of RedisBloom arrive as 1 or as true.
local function says_yes(answer)
  return answer == 1 or answer == true
end

local function is_seen(fingerprint)
  local key, before, member = locate(fingerprint)
  if says_yes(redis.call(seen.commands.has, key, member)) then
    return true
  end
  for back = 1, seen.earlier do
    if says_yes(redis.call(seen.commands.has, KEYS[before + back], member)) then
      return true
    end
  end
  return false
end

local function error_of(answer)
  return type(answer) == 'table' and answer.err or nil
end

-- What is wrong, if the filter cannot be made: it may be larger than the memory.
local function reserve_filter()
  if seen.kind ~= 'bloom' or seen.is_reserved then
    return nil
  end
  local failure
  if redis.call('TYPE', K.seen).ok == 'none' then
    failure = error_of(redis.pcall(
      'BF.RESERVE', K.seen, seen.error_rate, seen.capacity, 'EXPANSION', BLOOM_GROWTH))
  end
  seen.is_reserved = not failure
  -- Without room for now, it is made as soon as there is some.
  if failure and not string.find(failure, 'OOM', 1, true) then
    return redis.error_reply('ERR no Bloom filter for ' .. seen.capacity .. ' pages at '
      .. seen.error_rate .. ': ' .. failure)
  end
end

-- Answers whether it was new in this epoch; nil when the set takes no more, as a filter
-- whose next part is larger than the memory that is left.
local function add_seen(fingerprint)
  if reserve_filter() or (seen.kind == 'bloom' and not seen.is_reserved) then
    return nil
  end
  local key, _, member = locate(fingerprint)
  local answer = redis.pcall(seen.commands.add, key, member)
  if error_of(answer) then
    return nil
  end
  local added = says_yes(answer)
  if added then
    set('seen_count', crawl.seen_count + 1)
  end
  return added
end

-- What counted as seen may be new from here on: whoever keeps answers learns it from the
-- next reply.
local function raise_seen_version()
  set('seen_version', crawl.seen_version + 1)
end

-- Answers the epochs, of those that count, in which it was seen.
local function forget_seen(fingerprint)
  local key, before, member = locate(fingerprint)
  local found = redis.call('SREM', key, member)
  set('seen_count', crawl.seen_count - found)
  local epochs = {found == 1 and crawl.epoch or nil}
  for back = 1, seen.earlier do
    if redis.call('SREM', KEYS[before + back], member) == 1 then
      epochs[#epochs + 1] = crawl.epoch - back
    end
  end
  return epochs
end

-- The test-and-set.
local function claim(fingerprint)
  if seen.earlier > 0 and is_seen(fingerprint) then
    return false
  end
  return add_seen(fingerprint)
end

-- Of many at once in an exact set, by fingerprint: whether it was seen.
local function which_are_seen(fingerprints)
  local found = {}
  for first = 1, #fingerprints, CHUNK do
    local last = math.min(first + CHUNK - 1, #fingerprints)
    for back = 0, seen.earlier do
      local key = back == 0 and K.seen or KEYS[FIXED_KEYS + back]
      local answers = redis.call('SMISMEMBER', key, unpack(fingerprints, first, last))
      for i, answer in ipairs(answers) do
        if answer == 1 then
          found[fingerprints[first + i - 1]] = true
        end
      end
    end
  end
  return found
end

-- Of many in an exact set, one after the other: whether each is new; and those that are.
-- Nothing is marked yet.
local function which_are_new(fingerprints)
  local new, known, found = {}, which_are_seen(fingerprints), {}
  for i, fingerprint in ipairs(fingerprints) do
    new[i] = not known[fingerprint]
    if new[i] then
      known[fingerprint] = true
      found[#found + 1] = fingerprint
    end
  end
  return new, found
end

local function add_all_seen(fingerprints)
  call_with_all('SADD', K.seen, fingerprints)
  set('seen_count', crawl.seen_count + #fingerprints)
end

local function begin_epochs(count)
  set('epoch', crawl.epoch + count)
  set('epoch_began', now)
  set('seen_count', 0)
  raise_seen_version()
end

-- With revisits: forgets what was seen EARLIER_EPOCHS + 1 epochs ago; all, if nobody called
-- for as long. KEYS must be those of the current epoch; the caller learns of the next one
-- and comes again.
local function rotate_epochs()
  if seen.earlier == 0 or crawl.revisit_ms == 0 or crawl.status == 'finished' then
    return
  end
  local over = math.floor((now - crawl.epoch_began) / (crawl.revisit_ms / EARLIER_EPOCHS))
  if over < 1 then
    return
  end
  begin_writing()
  local count = math.min(over, EARLIER_EPOCHS + 1)
  for n = 0, count - 1 do
    put_on_tidy_list(crawl.epoch - EARLIER_EPOCHS + n, seen.shards)
  end
  begin_epochs(count)
  save_crawl()
end
