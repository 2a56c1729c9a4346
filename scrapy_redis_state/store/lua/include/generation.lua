-- A generation of a crawl: how it begins. How it ends is in finish.lua.

-- Fields that are compared between workers, and must be read from the next
-- generation's first worker again.
local AGREED = 'agreed:'

local function forget_agreed()
  for _, field in ipairs(redis.call('HKEYS', K.crawl)) do
    if string.sub(field, 1, #AGREED) == AGREED then
      redis.call('HDEL', K.crawl, field)
    end
  end
end

-- Nothing of the generation before is left but the sequence of ids and the clock.
-- The seen set of the new one has a new epoch, and so is not among this call's KEYS.
local function open_generation(token)
  for name, key in pairs(K) do
    if name ~= 'crawl' then
      redis.call('UNLINK', key)
    end
  end
  put_other_epochs_on_tidy_list()
  redis.call('PERSIST', K.crawl)
  forget_agreed()
  set('generation', crawl.generation + 1)
  set('token', token)
  set('status', 'running')
  for _, field in ipairs({'seeding', 'seed_worker', 'suspect', 'suspect_worker'}) do
    set(field, '')
  end
  crawl['agreed:seen'] = ''
  for _, field in ipairs({
      'seed_failures', 'done', 'most_workers', 'finished_at', 'expires_at', 'given',
      'keep_alive'}) do
    set(field, 0)
  end
  -- None of the epochs before may count in this generation.
  begin_epochs(seen.earlier + 1)
end

-- The first to come decides what kind of seen set it is.
local function agree_on_seen(spec)
  if crawl['agreed:seen'] == '' then
    set('agreed:seen', spec)
    describe_seen()
  end
end
