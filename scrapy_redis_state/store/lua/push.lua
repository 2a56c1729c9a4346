-- Store requests, or claim fingerprints, from outside a worker.
--
-- KEYS     all keys of the crawl, see include/keys.lua
-- ARGV     1 epoch  2 token for a generation that this call opens  3 packed operations
--          4 seen set that the caller knows, and wants for a new generation
-- Returns  status (ok, epoch, finished, wrong_type), epoch, answers,
--          with wrong_type: key, its type, the type expected; seen set

-- @include keys
-- @include crawl
-- @include tidy
-- @include seen
-- @include types
-- @include entry
-- @include place
-- @include generation
-- @include workers
-- @include handback
-- @include sites
-- @include room
-- @include runs
-- @include operations
-- @include malformed
-- @include batch
-- @include wake

local epoch, operations, spec = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[3]), ARGV[4]

local function reply(status, answers, wrong)
  return {status, crawl.epoch or 0, answers or '', wrong or {}, crawl['agreed:seen'] or ''}
end

-- What only forgets pages is no reason to begin a generation.
local function only_forgets()
  for _, op in ipairs(operations) do
    if op[1] ~= 'o' then
      return false
    end
  end
  return #operations > 0
end

local exists, wrong = open_crawl()
if wrong and wrong[2] == HALF then
  return wrong_type_error(wrong)
elseif wrong then
  return reply('wrong_type', '', wrong)
end
local finished = crawl.status == 'finished' and not only_forgets()
if finished and crawl.given == 1 then
  return reply('finished')
end
local opens = not exists or finished
-- A caller that has no wish goes by what the workers of the last generation had.
if finished and spec == 'exact' and crawl['agreed:seen'] ~= '' then
  spec = crawl['agreed:seen']
end
if exists and epoch == crawl.epoch then
  rotate_epochs()
end
-- KEYS must be those of the epoch, and fingerprints in the form of the seen set.
local decided = crawl['agreed:seen'] ~= ''
local differs = decided and not opens and crawl['agreed:seen'] ~= spec
if exists and (epoch ~= crawl.epoch or differs) then
  return reply('epoch')
end
wrong = exists and wrong_shard()
  or not exists and wrong_type_beyond(string.match(spec, '^bloom') and COMMANDS.bloom.type or 'set')
if wrong then
  return reply('wrong_type', '', wrong)
end
-- Where the next generation opens the caller comes again, with KEYS of its epoch.
local failure = (not finished and find_malformed(operations)) or probe_room()
if failure then
  return failure
end
if opens then
  open_generation(ARGV[2])
end
agree_on_seen(spec)
save_crawl()
if epoch ~= crawl.epoch then
  return reply('epoch')
end
failure = reserve_filter()
if failure then
  return failure
end
local answers = run_operations('', operations)
wake_idle()
set('pushed_at', now) -- see delete.lua; the crawl clock is for workers
save_crawl()
return reply('ok', answers)
