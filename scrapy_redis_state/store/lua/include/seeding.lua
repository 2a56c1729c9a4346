-- The seeding token: which worker runs start().

-- Gives it to a worker that can run start(), if that is still to be done and no live worker
-- has the token.
local function take_seed_token(worker)
  if crawl.seeding ~= 'open' or crawl.status == 'draining' then
    return
  end
  local holder = crawl.seed_worker
  if holder == '' or not is_live(redis.call('ZSCORE', K.workers, holder)) then
    set('seed_token', crawl.seed_token + 1)
    set('seed_worker', worker)
  end
end
