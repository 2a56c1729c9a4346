-- Pages of a site, where their number is limited. A page counts for as long as it is
-- remembered: in an epoch of the seen set, or among the pages with a time of their own.
--
-- "<epoch>:<count>,...", with OWN_TIME in place of the epoch of the latter.

local OWN_TIME = 0

local function counts_of(site)
  local counts = {}
  for epoch, count in string.gmatch(redis.call('HGET', K.sites, site) or '', '(%d+):(%d+)') do
    epoch = tonumber(epoch)
    if epoch == OWN_TIME or epoch >= crawl.epoch - seen.earlier then
      counts[epoch] = tonumber(count)
    end
  end
  return counts
end

local function is_site_full(site)
  if site == '' or crawl.max_per_site == 0 then
    return false
  end
  local sum = 0
  for _, count in pairs(counts_of(site)) do
    sum = sum + count
  end
  return sum >= crawl.max_per_site
end

-- A page that is remembered, or (-1) no longer is.
local function count_page(site, epoch, added)
  if site == '' or crawl.max_per_site == 0 then
    return
  end
  local counts, texts = counts_of(site), {}
  counts[epoch] = (counts[epoch] or 0) + added
  for one, count in pairs(counts) do
    if count > 0 then
      texts[#texts + 1] = number(one) .. ':' .. number(count)
    end
  end
  if #texts == 0 then
    redis.call('HDEL', K.sites, site)
    return
  end
  table.sort(texts)
  redis.call('HSET', K.sites, site, table.concat(texts, ','))
end
