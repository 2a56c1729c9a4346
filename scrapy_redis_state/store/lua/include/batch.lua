-- All operations of a call, in their order (see operations.lua).

local ENDS_LEASE = {a = true, f = true, r = true, w = true, b = true, h = true}
-- The end of a page must not overtake what it made; what is handed back is not over.
local IS_OVER = {a = true, f = true, b = true, h = true}

-- "worker:batch" of each batch that operations name.
local function holders_of(worker)
  return setmetatable({}, {__index = function(holders, batch)
    holders[batch] = worker .. ':' .. number(batch)
    return holders[batch]
  end})
end

-- Leases named by the operations, read in one go: id -> "worker:batch".
local function read_leases(operations)
  local ids, leases = {}, {}
  for _, op in ipairs(operations) do
    if ENDS_LEASE[op[1]] then
      ids[#ids + 1] = op[2]
    end
  end
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local values = redis.call('HMGET', K.leases, unpack(ids, first, last))
    for i, value in ipairs(values) do
      leases[ids[first + i - 1]] = value
    end
  end
  return leases
end

-- A run: operations one after the other that only store filtered or other requests, or
-- only end pages, and so can share their commands. All others are done by themselves, when
-- the run before them is.
local run = {stores = {}, places = {}, acked = {}}

-- Whether nothing but the seen set has a say, and that is one which takes whatever comes.
local function is_plain(op)
  return room and seen.kind == 'exact'
    and (not op[6] or (op[6] == '' and op[8] == '' and op[9] == 0))
end

local function run_stores(answers)
  local asked, new = {}, {}
  for _, op in ipairs(run.stores) do
    if op[4] ~= '' then
      asked[#asked + 1] = op[4]
    end
  end
  local are_first, found = which_are_new(asked)
  local n = 0
  for i, op in ipairs(run.stores) do
    local is_first = true
    if op[4] ~= '' then
      n = n + 1
      is_first = are_first[n]
    end
    answers[run.places[i]] = is_first and STORED or DUPLICATE
    if is_first then
      new[#new + 1] = op
    end
  end
  if #new > 0 then
    -- First, since that may fail: what is seen and not stored would be lost.
    local ids = new_ids(#new)
    add_all_seen(found)
    add_pending(new, ids)
  end
end

local function end_run(answers)
  if #run.stores > 0 then
    run_stores(answers)
  end
  if #run.acked > 0 then
    complete_all(run.acked)
  end
  if #run.stores + #run.acked > 0 then
    run = {stores = {}, places = {}, acked = {}}
  end
end

-- Answers, one character each; and how many leases were ended.
local function run_operations(worker, operations)
  local leases, holders = read_leases(operations), holders_of(worker)
  local answers, ended = {}, 0
  for i, op in ipairs(operations) do
    local kind, id = op[1], op[2]
    if ENDS_LEASE[kind] and leases[id] ~= holders[op[3]] then
      answers[i] = STALE
    elseif IS_OVER[kind] and refused_pages[id] then
      answers[i] = WITHHELD
    elseif kind == 's' and is_plain(op) then
      run.stores[#run.stores + 1] = op
      run.places[#run.places + 1] = i
    elseif kind == 'a' and #(op[4] or {}) == 0 then
      run.acked[#run.acked + 1] = id
      answers[i] = DONE
      leases[id] = nil
      ended = ended + 1
    else
      end_run(answers)
      answers[i] = operate[kind](worker, op)
      if ENDS_LEASE[kind] and answers[i] == DONE then
        leases[id] = nil
        ended = ended + 1
      end
    end
  end
  end_run(answers)
  return table.concat(answers), ended
end
