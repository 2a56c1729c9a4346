-- How fast it goes: samples of the crawl, and an account of each worker's work, both
-- written along with what a call writes anyway, and read by status.lua alone.

local SLOT_MS = 10000 -- from one sample of the crawl to the next
local SAMPLES = 31    -- so that they cover five minutes
local MARK_MS = 30000 -- from one mark in a worker's account to the next

-- Whether the call before this one, at `before_us`, was in another slot of time.
local function is_new_slot(before_us, length_ms)
  local length = length_ms * 1000
  return math.floor(before_us / length) ~= math.floor(now_us / length)
end

local function read_samples()
  local ok, samples = pcall(cmsgpack.unpack, redis.call('HGET', K.crawl, 'samples') or '')
  -- Those of another generation count other pages; a clock that was put back would have
  -- them in the future.
  if not ok or type(samples) ~= 'table' or samples[1] ~= crawl.generation then
    return {crawl.generation}
  end
  local last = samples[#samples - 2] or 0
  return type(last) == 'number' and last <= now and samples or {crawl.generation}
end

-- generation, time (ms), pages done, requests left, time, ...
local function take_sample(places)
  local samples = read_samples()
  for _ = 1, #samples >= 1 + 3 * SAMPLES and 3 or 0 do
    table.remove(samples, 2)
  end
  local left = places.pending + places.in_flight + places.delayed + places.suspects
  for _, value in ipairs({now, crawl.done, left}) do
    samples[#samples + 1] = value
  end
  redis.call('HSET', K.crawl, 'samples', cmsgpack.pack(samples))
end

-- What a worker's record keeps of its work: leases held; pages done since it joined; for
-- how long it had held its oldest lease (ms, 0: not known); and two marks, each a time
-- (ms) with the pages done by then.
local function keep_account(account, before_us, held, done, oldest)
  local _, _, _, earlier_at, earlier, late_at, late = unpack(account)
  if late_at == 0 then
    earlier_at, earlier, late_at, late = now, account[2], now, account[2]
  elseif is_new_slot(before_us, MARK_MS) then
    earlier_at, earlier, late_at, late = late_at, late, now, account[2]
  end
  return {math.max(0, held), done, oldest, earlier_at, earlier, late_at, late}
end
