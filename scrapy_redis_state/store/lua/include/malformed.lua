-- What is wrong with operations, found before the first of them is run (see
-- operations.lua).

-- The types of the fields of each kind, in order. A script is not rolled back, so what
-- could raise half-way is refused before anything is written.
local FIELD_TYPES = {
  s = {'string', 'number', 'string', 'string', 'string', 'number', 'string', 'number'},
  d = {'string', 'string', 'number', 'string'},
  c = {'string'}, k = {'string'}, o = {'string', 'string', 'string'},
  a = {'string', 'number', 'table'}, f = {'string', 'number', 'number', 'string'},
  r = {'string', 'number'}, w = {'string', 'number', 'number'},
  b = {'string', 'number', 'string'},
  h = {'string', 'number', 'number', 'string'},
  e = {'number', 'table'}, g = {'number', 'string'},
}

-- Length of an operation without them.
local OMITTED = {s = 5, a = 3}

-- Those that have their places in the seen set.
local function fingerprints_of(op)
  if op[1] == 's' then
    return (op[9] or 0) > 0 and {} or {op[4]}
  elseif op[1] == 'a' then
    return op[4] or {}
  elseif op[1] == 'e' then
    return op[3]
  end
  return string.find('cko', op[1], 1, true) and {op[2]} or {}
end

-- What is wrong with the operation at a position, if anything.
local function fault_of(op, position)
  local types = FIELD_TYPES[op[1]]
  if not types then
    return 'operation ' .. position .. ' is of no known kind'
  end
  for field = 1, #op == OMITTED[op[1]] and #op - 1 or #types do
    if type(op[field + 1]) ~= types[field] then
      return 'field ' .. field .. ' of operation ' .. position .. ' is a '
        .. type(op[field + 1]) .. ', not a ' .. types[field]
    end
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
