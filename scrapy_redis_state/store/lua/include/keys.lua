-- Names for KEYS, which every script gets in the same order (see keys.py).

local K = {
  crawl = KEYS[1], frontier = KEYS[2], requests = KEYS[3], seen = KEYS[4],
  inflight = KEYS[5], leases = KEYS[6], delayed = KEYS[7], suspects = KEYS[8],
  dead = KEYS[9], deadinfo = KEYS[10], seeds = KEYS[11], workers = KEYS[12],
  replies = KEYS[13], sites = KEYS[14], revisits = KEYS[15], wake = KEYS[16],
}

local FIXED_KEYS = 16 -- those that come after are of the seen set
local last_seen_key = #KEYS -- but what a script has for itself, behind those

-- `unpack` fails on long lists, so long argument lists go in pieces.
local CHUNK = 4000

-- One command for all members; of pairs there are an even number in each piece.
local function call_with_all(command, key, args)
  for first = 1, #args, CHUNK do
    redis.call(command, key, unpack(args, first, math.min(first + CHUNK - 1, #args)))
  end
end
