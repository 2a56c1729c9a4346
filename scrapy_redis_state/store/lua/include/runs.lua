-- Runs, which are most of what workers send (see wire.py): an operation S stands for many
-- stores, an A for many acks, with nothing special about them, and is answered by one
-- character for each. How to store and to complete is shared with operations.lua.

-- New requests, in their order, into the frontier.
local function add_pending(priorities, entries)
  local last, texts = reserve_ids(#entries), remember(number)
  local contents, places = {}, {}
  for i = 1, #entries do
    local id = id_of(last - #entries + i)
    contents[2 * i - 1], contents[2 * i] = id, entries[i]
    places[2 * i - 1], places[2 * i] = texts[priorities[i]], id
  end
  call_with_all('HSET', K.requests, contents)
  call_with_all('ZADD', K.frontier, places)
end

-- Requests whose pages are done.
local function complete_all(ids)
  end_leases(ids)
  call_with_all('HDEL', K.requests, ids)
  set('done', crawl.done + #ids)
end

-- Answers for each of so many stores whether it is new; nil where it is refused. Without
-- room, what is known already is still known. `fingerprints` has one for each, or none.
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

-- Notes the pages of what was refused.
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

-- Stores: one fingerprint for each, or none; priorities; {page, count} for those that follow
-- one another from one page; where each entry ends; entries in one piece
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

-- Acks: ids, batches. Answers too how many were done.
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
