"""Two lines that share a crawl, short times, and a pipeline that survives SIGKILL."""

ADDONS = {"scrapy_redis_state.Addon": 500}
REDIS_STATE_LEASE_SECS = 2
REDIS_STATE_REAP_INTERVAL_SECS = 0.5

SPIDER_MODULES = ["tests.crawl.project.spiders"]
ITEM_PIPELINES = {
    "tests.crawl.project.pipelines.Fates": 100,
    "tests.crawl.project.pipelines.Recorder": 300,
}
RECORDS = "."
"""Directory in which each worker has a file of its items."""

CONCURRENT_REQUESTS = 4
CONCURRENT_REQUESTS_PER_DOMAIN = 8
RETRY_TIMES = 2
DOWNLOAD_TIMEOUT = 20
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
HTTPPROXY_ENABLED = False
LOG_LEVEL = "INFO"
