-- Become a worker: open, join, resume or find finished a crawl; or rejoin it.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 packed map, the fields of messages.JoinRequest
-- Returns  status, token, generation, stamp,
--          differences (name, stored, given, ...), summary
--          or an error, NOPERM, that names the commands which the user may not run

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry
-- @include place
-- @include generation
-- @include finish
-- @include workers
-- @include seeding
-- @include summary
-- @include denials
-- @include rights

local request = cmsgpack.unpack(ARGV[1])

local function reply(status, differences, stamp)
  return {status, crawl.token, crawl.generation, stamp or crawl.stamp, differences or {},
    crawl.token ~= '' and summary(request.worker) or {}}
end

-- name, stored, given, ... of the values that differ from what is recorded; those
-- in `loose` apart, since they are only reported.
local function compare(pairs_given, loose, strict_found, loose_found)
  for _, pair in ipairs(pairs_given) do
    local name, given = pair[1], pair[2]
    local stored = redis.call('HGET', K.crawl, AGREED .. name)
    if stored and stored ~= given then
      local found = loose[name] and loose_found or strict_found
      for _, value in ipairs({name, stored, given}) do
        found[#found + 1] = value
      end
    end
  end
end

-- Whether the crawl waits for more when all is done: one of its spiders says so. Those
-- that come when no other lives decide anew, as of other values.
local function record_keep_alive()
  if request.seeding ~= '' then
    local others = count_live() > 0 and crawl.keep_alive or 0
    set('keep_alive', math.max(others, request.keep_alive))
  end
end

local function record_agreed()
  set('given', math.max(crawl.given, request.given))
  for _, pair in ipairs(request.identity) do
    redis.call('HSETNX', K.crawl, AGREED .. pair[1], pair[2])
    if pair[1] == 'order' then
      set('order', pair[2])
    elseif pair[1] == 'seen' then
      agree_on_seen(pair[2])
    end
  end
  for _, pair in ipairs(request.tunable) do
    redis.call('HSET', K.crawl, AGREED .. pair[1], pair[2])
    set(pair[1], tonumber(pair[2]))
  end
end

local function add_worker(status)
  record_keep_alive()
  redis.call('ZADD', K.workers, number(crawl.clock), request.worker)
  -- Busy until it tells: who rejoins may have requests that it could not send yet.
  write_record(request.worker, true, 0, next_stamp(), true, '', {}, NO_WORK)
  redis.call('HSET', K.replies, request.worker .. ':info', cjson.encode({
    host = request.host, pid = request.pid, joined = now, status = status}))
  set('most_workers', math.max(crawl.most_workers, count_live()))
  if crawl.seeding == '' then
    set('seeding', request.seeding)
  end
  if request.seeder == 1 then
    take_seed_token(request.worker)
  end
end

local function rejoin(exists)
  if not exists then
    return reply('lost')
  end
  if crawl.token ~= request.token then
    return reply(crawl.generation > request.generation and 'superseded' or 'lost')
  end
  advance_clock()
  begin_writing()
  release_all(request.previous)
  remove_worker(request.previous)
  if crawl.status == 'finished' then
    save_crawl()
    return reply('finished')
  end
  add_worker('joined')
  save_crawl()
  return reply('joined')
end

-- Everybody left, or died, without seeing that there was nothing left to do. One that
-- was busy may only be late: an outage of the server is no time to declare an end. One
-- that is kept alive waits for its workers.
local function is_abandoned()
  return crawl.status == 'running' and crawl.keep_alive == 0 and now - crawl.last_time >= crawl.lease_ms
    and is_complete(count_places()) and not anyone_busy('-inf')
end

local function stays_finished()
  local finished_ago = now - crawl.finished_at
  return request.given == 1 or request.age_ms >= finished_ago
    or (crawl.most_workers > 1 and finished_ago < crawl.lease_ms)
end

local function differences()
  local strict, reported, loose = {}, {}, {}
  for _, name in ipairs(request.loose) do
    loose[name] = true
  end
  compare(request.identity, loose, strict, reported)
  if count_live() > 0 then
    compare(request.tunable, {}, strict, reported)
  end
  return strict, reported
end

-- The answer of the first time, whatever others have done since; nil if there was none.
local function repeated_reply()
  local info = redis.call('HGET', K.replies, request.worker .. ':info')
  if not info then
    return nil
  end
  local _, reported = differences()
  return reply(cjson.decode(info).status, request.token == '' and reported or {},
    read_record(request.worker).stamp)
end

local function enter(status)
  begin_writing()
  if status == 'created' then
    open_generation(request.new_token)
  end
  record_agreed()
  add_worker(status)
  save_crawl()
end

local function first_join(exists)
  local abandoned = exists and is_abandoned()
  if abandoned then
    -- Dated by the last call, which is when there was nothing left to do.
    crawl.status, crawl.finished_at = 'finished', crawl.last_time
  end
  advance_clock()
  local over = crawl.status == 'finished' and stays_finished()
  local status = (not exists or crawl.status == 'finished') and 'created'
    or count_live() > 0 and 'joined' or 'resumed'
  if over then
    status = 'finished'
  end
  local strict, reported = {}, {}
  if status ~= 'created' then
    strict, reported = differences()
  end
  if #strict > 0 then
    return reply('mismatch', strict)
  elseif request.dry_run == 1 then
    return reply(status, reported)
  elseif not over then
    enter(status)
  elseif abandoned then
    begin_writing()
    finish(crawl.finished_at)
  end
  return reply(status, reported)
end

local function asks_for_bloom()
  for _, pair in ipairs(request.identity) do
    if pair[1] == 'seen' then
      return string.sub(pair[2], 1, 5) == 'bloom'
    end
  end
  return false
end

local missed = request.token == '' and missed_commands(asks_for_bloom()) or {}
if #missed > 0 then
  return redis.error_reply('NOPERM the user may not run ' .. table.concat(missed, ', '))
end
local exists, wrong = open_crawl()
if wrong and wrong[2] == HALF then
  return wrong_type_error(wrong)
elseif wrong then
  return {'wrong_type', '', 0, 0, wrong, {}}
end
if exists and request.epoch ~= crawl.epoch then
  return reply('epoch')
end
local repeated = exists and repeated_reply()
if repeated then
  return repeated
elseif request.token ~= '' then
  return rejoin(exists)
end
return first_join(exists)
