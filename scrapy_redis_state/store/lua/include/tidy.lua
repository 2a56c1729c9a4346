-- Epochs of the seen set that nobody uses any more, "<epoch>/<shards>,...": a packed set
-- has too many keys for one call, so whoever reaps deletes them bit by bit.

local function put_on_tidy_list(epoch, shards)
  if epoch < 1 then
    return
  end
  local entry = number(epoch) .. '/' .. shards
  set('tidy', crawl.tidy == '' and entry or crawl.tidy .. ',' .. entry)
end

-- "<epoch>/<shards>:<number of the next shard>"; empty: nothing is left.
local function next_to_tidy()
  local entry = string.match(crawl.tidy, '^[^,]+')
  return entry and entry .. ':' .. number(crawl.tidy_from) or ''
end

local function note_tidied(shards)
  set('tidy_from', crawl.tidy_from + shards)
  if crawl.tidy_from >= tonumber(string.match(crawl.tidy, '/(%d+)')) then
    set('tidy', string.match(crawl.tidy, ',(.*)$') or '')
    set('tidy_from', 0)
  end
end
