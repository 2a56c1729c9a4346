-- One exchange of one worker: operations, beat, promote, reap, seeding token, pop or
-- sign-off, reply.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 worker  2 token  3 batch  4 last stamp read  5 epoch  6 want
--          7 flags: any of b(usy) i(dle) s(eeder) l(eaving) e(nds it)  8 packed operations
--          9 for how long it has held its oldest lease (ms)
-- Returns  status, stamp, answers, popped (id, entry, ...),
--          reaped (requeued, buried, repaired), summary

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types

-- All that follows is in a function, which saves a tenth of the time of a small exchange.
-- Functions are made anew in each call, and for each local of the level around it that a new
-- one uses, Lua searches a list; what that level has from further out is only copied.
local function exchange()

-- @include entry
-- @include place
-- @include finish
-- @include workers
-- @include seeding
-- @include pace
-- @include handback
-- @include reap
-- @include summary
-- @include sites
-- @include room
-- @include runs
-- @include operations
-- @include malformed
-- @include batch
-- @include pop
-- @include wake

local PROMOTE, REAP = 100, 100

local worker, token, batch, last_stamp = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local epoch, want, operations = tonumber(ARGV[5]), tonumber(ARGV[6]), cmsgpack.unpack(ARGV[8])
local oldest = tonumber(ARGV[9])

local function flag(letter)
  return string.find(ARGV[7], letter, 1, true) ~= nil
end

local function reply(status, stamp, answers, popped, places, live)
  local counts = {reaped.requeued, reaped.buried, reaped.repaired}
  return {status, stamp, answers, popped, counts, summary(worker, places, live)}
end

-- The only reading part: nothing of the batch is written when this answers something.
local function check(record, beat)
  if not record or not is_live(beat) or crawl.status == 'finished' then
    return reply('rejoin', 0, '', {})
  end
  if epoch ~= crawl.epoch then
    return reply('epoch', 0, '', {})
  end
  if batch == record.batch then
    if not record.complete then
      return reply('broken', 0, '', {})
    end
    return reply('ok', record.stamp, record.answers,
      still_leased(record.popped, worker, batch))
  end
  if batch < record.batch then
    return reply('old', 0, '', {})
  end
  if batch ~= record.batch + 1 or last_stamp ~= record.stamp then
    return reply('rejoin', 0, '', {})
  end
end

-- A crawl that workers keep alive waits for more, also while none of them is there.
local function may_finish()
  return crawl.keep_alive == 0 or flag('e')
end

local function sign_off()
  release_all(worker)
  remove_worker(worker)
  if may_finish() and count_live() == 0 and is_complete(count_places()) then
    finish(now)
  end
end

local exists, wrong = open_crawl()
-- Nothing is done by half: the join that follows tells which key is not ours.
if wrong or not exists or crawl.token ~= token then
  return {'rejoin', 0, '', {}, {0, 0, 0}, {}}
end
if epoch == crawl.epoch then
  rotate_epochs()
end
advance_clock()
local record = read_record(worker)
local refusal = check(record, redis.call('ZSCORE', K.workers, worker))
if refusal then
  return refusal
end
local failure = find_malformed(operations)
if failure then
  return failure
end
-- A join cannot tell of those: a page of which the shard is not ours is not stored.
local shard = wrong_shard()
if shard then
  return wrong_type_error(shard)
end
failure = reserve_filter() or probe_room()
if failure then
  return failure
end

local account, done_before, stamp_before = record.account, crawl.done, crawl.stamp
write_record(worker, flag('b'), batch, 0, false, '', {}, account)
local answers, ended = run_operations(worker, operations)
redis.call('ZADD', K.workers, number(crawl.clock), worker)
promote(PROMOTE)
reap(REAP)
if flag('s') then
  take_seed_token(worker)
end
local stamp = next_stamp()
local popped = {}
if flag('l') then
  sign_off()
else
  popped = pop(worker, batch, want, flag('i'))
  local ids = {}
  for i = 1, #popped, 2 do
    ids[#ids + 1] = popped[i]
  end
  account = keep_account(account, record.stamp, account[1] - ended + #ids,
    account[2] + crawl.done - done_before, oldest)
  write_record(worker, flag('b'), batch, stamp, true, answers, ids, account)
end
local places, live = count_places(), count_live()
if is_new_slot(stamp_before, SLOT_MS) then
  take_sample(places)
end
wake_idle(places.pending, live)
save_crawl()
return reply('ok', stamp, answers, popped, places, live)

end

return exchange()
