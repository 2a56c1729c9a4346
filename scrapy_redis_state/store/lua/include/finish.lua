-- A generation of a crawl: how it ends. How it begins is in generation.lua.

local function finish(at)
  set('status', 'finished')
  set('finished_at', at)
  if crawl.finished_ttl_ms == 0 then
    return save_crawl()
  end
  set('expires_at', now + crawl.finished_ttl_ms)
  put_other_epochs_on_tidy_list()
  save_crawl()
  for name, key in pairs(K) do
    -- The crawl must be there to tell of what is on the list.
    if name ~= 'crawl' or crawl.tidy == '' then
      redis.call('PEXPIRE', key, crawl.finished_ttl_ms)
    end
  end
end
