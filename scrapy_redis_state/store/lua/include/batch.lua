-- All operations of a call, in their order: runs (see runs.lua), and all others (see
-- operations.lua).

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

local operate -- functions by kind, made when the first of them is needed

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
      operate = operate or make_operate()
      answers[i] = operate[kind](worker, op)
      if ENDS_LEASE[kind] and answers[i] == DONE then
        leases[op[2]], count = nil, 1
      end
    end
    ended = ended + count
  end
  return table.concat(answers), ended
end
