-- The seen set: which fingerprints are new. Of which kind it is, crawl['agreed:seen']
-- says (see seen.py): exact, bloom:<capacity>:<error rate> or packed:<capacity>, and
-- "+revisits" if pages are forgotten after some time.
--
-- A fingerprint is bytes; of a packed set "<number of a key>:<integer>". With revisits
-- the sets of the epochs before count too, and their KEYS follow.

local EARLIER_EPOCHS, PER_SHARD = 2, 380 -- as in seen.py
local BLOOM_GROWTH = 2 -- each filter that is added is twice as large as the last

local COMMANDS = {
  exact = {has = 'SISMEMBER', have = 'SMISMEMBER', add = 'SADD', type = 'set'},
  packed = {has = 'SISMEMBER', add = 'SADD', type = 'none'},
  bloom = {has = 'BF.EXISTS', have = 'BF.MEXISTS', add = 'BF.ADD', type = 'MBbloom--'},
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

-- What a command answers for each of many fingerprints. `run` is redis.call, or redis.pcall:
-- then there is an error, or nothing, for some.
local function ask_all(run, command, key, fingerprints)
  if #fingerprints <= CHUNK then
    return #fingerprints > 0 and run(command, key, unpack(fingerprints)) or {}
  end
  local answers = {}
  for first = 1, #fingerprints, CHUNK do
    local last = math.min(first + CHUNK - 1, #fingerprints)
    local some = run(command, key, unpack(fingerprints, first, last))
    for i = first, last do
      answers[i] = some[i - first + 1]
    end
  end
  return answers
end

-- Places and fingerprints of those that are in the set of no epoch that counts.
local function unseen(fingerprints)
  local places, asked = {}, fingerprints
  for place = 1, #fingerprints do
    places[place] = place
  end
  for back = 0, seen.earlier do
    local key = back == 0 and K.seen or KEYS[FIXED_KEYS + back]
    local answers = ask_all(redis.call, seen.commands.have, key, asked)
    local left, still_asked = {}, {}
    for n = 1, #places do
      local answer = answers[n]
      if answer ~= 1 and answer ~= true then
        left[#left + 1], still_asked[#left + 1] = places[n], asked[n]
      end
    end
    places, asked = left, still_asked
  end
  return places, asked
end

local claim_many = {}

-- An exact set does not tell which of many it took: they are looked for first.
claim_many.exact = function(fingerprints, answers)
  local new, known = {}, {}
  local places, left = unseen(fingerprints)
  for n = 1, #places do
    local fingerprint = left[n]
    if not known[fingerprint] then
      known[fingerprint], answers[places[n]] = true, true
      new[#new + 1] = fingerprint
    end
  end
  call_with_all('SADD', K.seen, new)
  return #new
end

-- Of a filter that takes no more some servers tell only that one of many was too much. What
-- is there after that, and was not before, was taken.
claim_many.bloom = function(fingerprints, answers)
  local can_take = not reserve_filter() and seen.is_reserved
  local places, left = unseen(fingerprints)
  local taken = can_take and ask_all(redis.pcall, 'BF.MADD', K.seen, left) or {}
  local known, added = {}, 0
  for n = 1, #places do
    local fingerprint, answer = left[n], taken[n]
    if answer == nil or error_of(answer) then
      answer = can_take and says_yes(redis.call('BF.EXISTS', K.seen, fingerprint)) or nil
    end
    if answer == nil then
      answers[places[n]] = nil
    elseif says_yes(answer) and not known[fingerprint] then
      known[fingerprint], answers[places[n]] = true, true
      added = added + 1
    end
  end
  return added
end

-- A key for almost each: they have no command in common.
claim_many.packed = function(fingerprints, answers)
  for place = 1, #fingerprints do
    answers[place] = claim(fingerprints[place])
  end
  return 0 -- `claim` has counted them
end

-- The test-and-set of many, one after the other, as `claim` answers for each.
local function claim_all(fingerprints)
  local answers = {}
  for place = 1, #fingerprints do
    answers[place] = false
  end
  local added = claim_many[seen.kind](fingerprints, answers)
  if added > 0 then
    set('seen_count', crawl.seen_count + added)
  end
  return answers
end

-- Epochs of the seen set that count, but for what is in K.seen.
local function put_other_epochs_on_tidy_list()
  if seen.shards > 0 then
    put_on_tidy_list(crawl.epoch, seen.shards)
  end
  for back = 1, seen.earlier do
    put_on_tidy_list(crawl.epoch - back, seen.shards)
  end
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
