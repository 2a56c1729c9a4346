"""Where the crawls are comes from the test."""

import os

ADDONS = {"scrapy_redis_state.Addon": 500}
BOT_NAME = os.environ["TEST_BOT"]
REDIS_STATE_URL = os.environ["TEST_URL"]
REDIS_STATE_KEY_PREFIX = os.environ.get("TEST_PREFIX", "")
REDIS_STATE_LEASE_SECS = 2
REDIS_STATE_REAP_INTERVAL_SECS = 0.5

SPIDER_MODULES = [os.environ.get("TEST_SPIDERS", "tests.commands.project.spiders")]
CONCURRENT_REQUESTS = 2
DOWNLOAD_TIMEOUT = 20
RETRY_TIMES = 0
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
HTTPPROXY_ENABLED = False
LOG_LEVEL = "INFO"
