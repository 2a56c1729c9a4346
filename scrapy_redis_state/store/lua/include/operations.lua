-- Operations other than runs (see runs.lua), each answered by one character (see
-- messages.Answer). An operation is a list: its kind, then the fields of its message in order.

-- Answers the functions by kind. Most calls need none of them, and the server would make all
-- of them anew in each call.
local function make_operate()
  local operate = {}

  -- Whether a page that has a time of its own was asked for within that time.
  local function is_recent(fingerprint)
    local again = redis.call('ZSCORE', K.revisits, fingerprint)
    return again and tonumber(again) > now
  end

  local function is_known(fingerprint, revisit)
    if fingerprint == '' then
      return false
    elseif revisit > 0 then
      return is_recent(fingerprint)
    end
    return is_seen(fingerprint)
  end

  -- The test-and-set of a request; nil when the seen set takes no more.
  local function is_new(fingerprint, revisit, seed)
    if fingerprint == '' then
      return true
    elseif revisit > 0 then
      local recent = is_recent(fingerprint)
      if not recent then
        redis.call('ZADD', K.revisits, now + revisit, fingerprint)
      end
      return not recent
    elseif seen.kind == 'bloom' and seed == fingerprint .. '1' then
      -- A false answer about a start request could cost a whole branch of the crawl. The
      -- set of seeds knows better, of the first of equal ones.
      return add_seen(fingerprint) ~= nil or nil
    end
    return claim(fingerprint)
  end

  -- Whether a page with a time of its own is one already that its site has: it comes again.
  local function comes_again(fingerprint, revisit)
    return crawl.max_per_site > 0 and revisit > 0 and fingerprint ~= ''
      and redis.call('ZSCORE', K.revisits, fingerprint) ~= false
  end

  -- Without room, what is known already is still known.
  local function refuse(fingerprint, revisit, seed, page)
    local known
    if seed ~= '' then
      known = redis.call('SISMEMBER', K.seeds, seed) == 1
    else
      known = is_known(fingerprint, revisit)
    end
    if known then
      return DUPLICATE
    end
    refused_pages[page] = true
    return REFUSED
  end

  -- Store: payload, priority, fingerprint, page, seed, seed_token, site, revisit_ms
  operate.s = function(worker, op)
    local _, payload, priority, fingerprint, page, seed, token, site, revisit = unpack(op)
    if seed ~= '' and (crawl.seed_worker ~= worker or crawl.seed_token ~= token) then
      return STALE
    end
    if not room then
      return refuse(fingerprint, revisit, seed, page)
    end
    local counted = comes_again(fingerprint, revisit)
    if not counted and is_site_full(site) then
      return is_known(fingerprint, revisit) and DUPLICATE or LIMITED
    end
    if seed ~= '' and redis.call('SADD', K.seeds, seed) == 0 then
      return DUPLICATE
    end
    local new = is_new(fingerprint, revisit, seed)
    if new == nil then
      if seed ~= '' then
        redis.call('SREM', K.seeds, seed)
      end
      refused_pages[page] = true
      return REFUSED
    elseif not new then
      return DUPLICATE
    end
    if not counted then
      count_page(site, revisit > 0 and OWN_TIME or crawl.epoch, 1)
    end
    add_pending({priority}, {join_entry(number(priority), 0, '', payload)})
    return STORED
  end

  -- StoreDead: payload, reason, priority, page
  operate.d = function(worker, op)
    local _, payload, reason, priority, page = unpack(op)
    if not room then
      return refuse('', 0, '', page)
    end
    add_dead(id_of(reserve_ids(1)), number(priority), 0, payload, reason, worker)
    return STORED
  end

  -- Claim: fingerprint
  operate.c = function(_, op)
    if not room then
      return refuse(op[2], 0, '', '')
    end
    local new = is_new(op[2], 0, '')
    if new == nil then
      return REFUSED
    end
    return new and STORED or DUPLICATE
  end

  -- Check: fingerprint
  operate.k = function(_, op)
    return is_seen(op[2]) and DUPLICATE or STORED
  end

  -- Forget: fingerprint, the same as it is, site
  operate.o = function(_, op)
    if seen.kind == 'bloom' then
      return REFUSED
    end
    local _, fingerprint, as_it_is, site = unpack(op)
    local epochs = forget_seen(fingerprint)
    if redis.call('ZREM', K.revisits, as_it_is) == 1 then
      epochs[#epochs + 1] = OWN_TIME
    end
    if #epochs == 0 then
      return STALE
    end
    for _, epoch in ipairs(epochs) do
      count_page(site, epoch, -1)
    end
    raise_seen_version()
    return DONE
  end

  local function mark_seen(fingerprints)
    for _, fingerprint in ipairs(fingerprints) do
      add_seen(fingerprint)
    end
  end

  -- Ack: id, batch, seen
  operate.a = function(_, op)
    mark_seen(op[4])
    complete_all({op[2]})
    return DONE
  end

  -- Fail: id, batch, delay_ms, reason
  operate.f = function(worker, op)
    fail(op[2], worker, op[4], op[5])
    return DONE
  end

  -- Release: id, batch
  operate.r = function(worker, op)
    release(op[2], worker)
    return DONE
  end

  -- Delay: id, batch, delay_ms
  operate.w = function(worker, op)
    put_off(op[2], worker, op[4])
    return DONE
  end

  -- Bury: id, batch, reason
  operate.b = function(worker, op)
    bury(op[2], worker, op[4])
    return DONE
  end

  -- HandBack: id, batch, delay_ms, reason
  operate.h = function(worker, op)
    local _, id, _, delay, reason = unpack(op)
    take_back(id, worker, function(priority, deliveries, refusers, payload)
      refusers = refusers == '' and worker or refusers .. ',' .. worker
      wait_for_others(id, worker, delay, reason, {priority, deliveries, refusers, payload})
    end)
    return DONE
  end

  local function holds_seed_token(worker, token)
    return crawl.seeding == 'open' and crawl.seed_worker == worker
      and crawl.seed_token == token
  end

  -- Seeded: seed_token, seen
  operate.e = function(worker, op)
    if not holds_seed_token(worker, op[2]) then
      return STALE
    end
    mark_seen(op[3])
    set('seeding', 'done')
    set('seed_worker', '')
    redis.call('UNLINK', K.seeds)
    return DONE
  end

  -- SeedFailed: seed_token, reason
  operate.g = function(worker, op)
    if not holds_seed_token(worker, op[2]) then
      return STALE
    end
    set('seed_worker', '')
    set('seed_failures', crawl.seed_failures + 1)
    set('seed_error', op[3])
    if crawl.seed_failures >= crawl.max_deliveries then
      set('seeding', 'failed')
      redis.call('UNLINK', K.seeds)
    end
    return DONE
  end

  return operate
end
