-- Move messages of a start key into the crawl: each leaves the key in the step that stores
-- what was made of it, and one that is not there any more makes nothing.
--
-- KEYS     all keys of the crawl, see include/keys.lua; the start key is the last
-- ARGV     1 epoch  2 token of the generation  3 packed list of (message, operations)
--          4 how far into a list a message is looked for
-- Returns  status (ok, epoch, over, full, wrong_type), epoch,
--          answers for each message ("-": it was gone, or there is no room for what was
--          made of it, and it stays); with wrong_type: key, its type, the type expected

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry
-- @include place
-- @include workers
-- @include handback
-- @include sites
-- @include room
-- @include runs
-- @include operations
-- @include malformed
-- @include batch
-- @include wake

local epoch, token, moves = tonumber(ARGV[1]), ARGV[2], cmsgpack.unpack(ARGV[3])
local depth = tonumber(ARGV[4])
local key = KEYS[#KEYS]
last_seen_key = #KEYS - 1
local NOT_MOVED = '-'

local function reply(status, answers)
  return {status, crawl.epoch or 0, answers or {}}
end

-- By type: whether a message is there, and taking it away.
local HAS = {
  list = function(message)
    return redis.call('LPOS', key, message, 'MAXLEN', depth)
  end,
  set = function(message)
    return redis.call('SISMEMBER', key, message) == 1
  end,
  zset = function(message)
    return redis.call('ZSCORE', key, message)
  end,
}
local REMOVE = {
  list = function(message)
    redis.call('LREM', key, 1, message)
  end,
  set = function(message)
    redis.call('SREM', key, message)
  end,
  zset = function(message)
    redis.call('ZREM', key, message)
  end,
}

local function all_operations()
  local all = {}
  for _, move in ipairs(moves) do
    for _, operation in ipairs(move[2]) do
      all[#all + 1] = operation
    end
  end
  return all
end

-- The seen set may refuse one of a message's requests, and the message is tried again:
-- what nothing filters is stored when none of the others can be refused any more.
local function passes_of(operations)
  if seen.kind ~= 'bloom' then
    return {operations}
  end
  local filtered, others = {}, {}
  for i, op in ipairs(operations) do
    local pass = op[1] == 's' and op[4] ~= '' and filtered or others
    pass[#pass + 1] = op
    op.place = i
  end
  return {filtered, others}
end

-- One character each, in their order; nil: the message stays.
local function run_message(operations)
  local answers = {}
  for _, pass in ipairs(passes_of(operations)) do
    local found = run_operations('', pass)
    if string.find(found, REFUSED, 1, true) then
      return nil
    end
    for i, op in ipairs(pass) do
      answers[op.place or i] = string.sub(found, i, i)
    end
  end
  return table.concat(answers)
end

local exists, wrong = open_crawl()
if wrong then
  return reply('wrong_type', wrong)
end
if not exists or crawl.token ~= token or crawl.status == 'finished' then
  return reply('over')
end
if epoch == crawl.epoch then
  rotate_epochs()
end
if epoch ~= crawl.epoch then
  return reply('epoch')
end
local type = redis.call('TYPE', key).ok
if type ~= 'none' and not HAS[type] then
  return reply('wrong_type', {key, type, 'list, set or zset'})
end
wrong = wrong_shard()
if wrong then
  return reply('wrong_type', wrong)
end
local failure = find_malformed(all_operations()) or reserve_filter() or probe_room()
if failure then
  return failure
end
if not room then
  return reply('full')
end

local answers = {}
for i, move in ipairs(moves) do
  -- Asked each time: the key is gone with its last message.
  if type ~= 'none' and HAS[type](move[1]) then
    answers[i] = run_message(move[2])
    if answers[i] then
      REMOVE[type](move[1])
    end
  end
  answers[i] = answers[i] or NOT_MOVED
end
wake_idle()
save_crawl()
return reply('ok', answers)
