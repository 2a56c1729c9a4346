-- With what operations are answered (see messages.Answer), and whether the server has room
-- for what they store.

local STORED, DUPLICATE, REFUSED, LIMITED = 's', 'd', 'r', 'l'
local DONE, STALE, WITHHELD = 'o', 'x', 'h'

local room = true        -- whether the server takes new data
local refused_pages = {} -- ids of pages of which a request was refused in this call

-- Redis refuses the first growing command of a script when it is out of memory and
-- allows all that follow another write; so ask first, with a command that changes
-- nothing, and then go on with one that does not grow.
local function probe_room()
  local answer = redis.pcall('HSETNX', K.crawl, 'token', '')
  if type(answer) ~= 'table' or not answer.err then
    return nil
  end
  if not string.find(answer.err, 'OOM', 1, true) then
    return answer
  end
  room = false
  begin_writing()
end
