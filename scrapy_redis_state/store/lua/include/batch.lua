-- All operations of a call, in their order (see operations.lua), and those kinds that stand
-- for many of them (see wire.py). These are answered by one character for each.

local ENDS_LEASE = {a = true, f = true, r = true, w = true, b = true, h = true}
-- The end of a page must not overtake what it made; what is handed back is not over.
local IS_OVER = {a = true, f = true, b = true, h = true}

-- Leases named by the operations, read in one go: id -> "worker:batch".
local function read_leases(operations)
  local ids, leases = {}, {}
  for _, op in ipairs(operations) do
    local ended = op[1] == 'A' and op[2] or ENDS_LEASE[op[1]] and {op[2]} or {}
    for i = 1, #ended do
      ids[#ids + 1] = ended[i]
    end
  end
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local values = redis.call('HMGET', K.leases, unpack(ids, first, last))
    for i = 1, #values do
      leases[ids[first + i - 1]] = values[i]
    end
  end
  return leases
end

-- Of so many stores whether each is new; nil if it is refused. Without room, what is known
-- already is still known. Fingerprints: of each, or none at all.
local function which_are_new(fingerprints, count)
  if room and #fingerprints > 0 then
    return claim_all(fingerprints)
  end
  local answers = {}
  for i = 1, count do
    if room then
      answers[i] = true
    elseif fingerprints[i] and is_seen(fingerprints[i]) then
      answers[i] = false
    end
  end
  return answers
end

local function refuse_pages(pages, is_new)
  local last = 0
  for _, group in ipairs(pages) do
    local page, count = unpack(group)
    for i = last + 1, last + count do
      if is_new[i] == nil then
        refused_pages[page] = true
      end
    end
    last = last + count
  end
end

-- Stores with nothing special about them: fingerprints, or none at all; priorities;
-- {page, count} of those of one page after the other; where each entry ends; entries in
-- one piece
local function run_stores(op)
  local _, fingerprints, priorities, pages, ends, entries = unpack(op)
  local is_new = which_are_new(fingerprints, #ends)
  local answers, new_priorities, new_entries, refused = {}, {}, {}, false
  for i = 1, #ends do
    if is_new[i] then
      answers[i] = STORED
      new_priorities[#new_priorities + 1] = priorities[i]
      new_entries[#new_entries + 1] = string.sub(entries, (ends[i - 1] or 0) + 1, ends[i])
    elseif is_new[i] == false then
      answers[i] = DUPLICATE
    else
      answers[i] = REFUSED
      refused = true
    end
  end
  if #new_entries > 0 then
    add_pending(new_priorities, new_entries)
  end
  if refused then
    refuse_pages(pages, is_new)
  end
  return table.concat(answers)
end

-- Acks with nothing special about them: ids, batches. Answers too how many were done.
local function run_acks(op, leases, holders)
  local _, ids, batches = unpack(op)
  local answers, done = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    if leases[id] ~= holders[batches[i]] then
      answers[i] = STALE
    elseif refused_pages[id] then
      answers[i] = WITHHELD
    else
      answers[i] = DONE
      done[#done + 1] = id
      leases[id] = nil
    end
  end
  if #done > 0 then
    complete_all(done)
  end
  return table.concat(answers), #done
end

-- Answers, one character each; and how many leases were ended.
local function run_operations(worker, operations)
  local leases, answers, ended = read_leases(operations), {}, 0
  local holders = remember(function(batch)
    return worker .. ':' .. number(batch)
  end)
  for i, op in ipairs(operations) do
    local kind, count = op[1], 0
    if kind == 'S' then
      answers[i] = run_stores(op)
    elseif kind == 'A' then
      answers[i], count = run_acks(op, leases, holders)
    elseif ENDS_LEASE[kind] and leases[op[2]] ~= holders[op[3]] then
      answers[i] = STALE
    elseif IS_OVER[kind] and refused_pages[op[2]] then
      answers[i] = WITHHELD
    else
      answers[i] = operate[kind](worker, op)
      if ENDS_LEASE[kind] and answers[i] == DONE then
        leases[op[2]], count = nil, 1
      end
    end
    ended = ended + count
  end
  return table.concat(answers), ended
end
