-- What is wrong with operations (see operations.lua and runs.lua), found before the first
-- of them is run.

-- The types of the fields of each kind, in order, by their first letters. (A table for each
-- would be made anew in each call.) A script is not rolled back, so what could raise half-way
-- is refused before anything is written.
local FIELD_TYPES = {
  S = 'tttts', A = 'tt', -- runs
  s = 'snsssnsn', d = 'ssns', c = 's', k = 's', o = 'sss', a = 'snt', f = 'snns', r = 'sn',
  w = 'snn', b = 'sns', h = 'snns', e = 'nt', g = 'ns',
}
local TYPE_NAMES = {s = 'string', n = 'number', t = 'table'}

-- Those that have their places in the seen set.
local function fingerprints_of(op)
  if op[1] == 'S' then
    return op[2]
  elseif op[1] == 's' then
    return op[9] > 0 and {} or {op[4]}
  elseif op[1] == 'a' then
    return op[4]
  elseif op[1] == 'e' then
    return op[3]
  end
  return string.find('cko', op[1], 1, true) and {op[2]} or {}
end

-- Both raise an error for a list with anything else in it. Nothing is written by then.
local function check_texts(list)
  table.concat(list)
end

local function check_numbers(list)
  local sum = 0
  for i = 1, #list do
    sum = sum + list[i]
  end
end

-- Whether the lists of a run fit together.
local function fit_together(op)
  if op[1] == 'A' then
    local _, ids, batches = unpack(op)
    check_texts(ids)
    check_numbers(batches)
    return #ids == #batches
  end
  local _, fingerprints, priorities, pages, ends, entries = unpack(op)
  check_texts(fingerprints)
  check_numbers(priorities)
  check_numbers(ends)
  local count = 0
  for _, group in ipairs(pages) do
    count = count + group[2]
  end
  return count == #ends and #priorities == #ends and ends[#ends] == #entries
    and (#fingerprints == #ends or #fingerprints == 0)
end

-- What is wrong with the operation at a position, if anything.
local function fault_of(op, position)
  local types = FIELD_TYPES[op[1]]
  if not types then
    return 'operation ' .. position .. ' is of no known kind'
  end
  for field = 1, #types do
    local name = TYPE_NAMES[string.sub(types, field, field)]
    if type(op[field + 1]) ~= name then
      return 'field ' .. field .. ' of operation ' .. position .. ' is a '
        .. type(op[field + 1]) .. ', not a ' .. name
    end
  end
  if (op[1] == 'S' or op[1] == 'A') and not fit_together(op) then
    return 'the lists of run ' .. position .. ' do not fit together'
  end
  -- Any other set has its only key in each call.
  if seen.kind == 'packed' or seen.earlier > 0 then
    for _, fingerprint in ipairs(fingerprints_of(op)) do
      if not has_keys_of(fingerprint) then
        return 'operation ' .. position .. ' has no key for its fingerprint'
      end
    end
  end
end

-- An error reply for the first operation that is none; else nil.
local function find_malformed(operations)
  for i, op in ipairs(operations) do
    local fault = fault_of(op, i)
    if fault then
      return redis.error_reply('ERR ' .. fault)
    end
  end
end
