"""Settings of the shop project.

The first two are all that sharing a crawl needs; the rest is ordinary Scrapy, but for
the priorities.
"""

ADDONS = {"scrapy_redis_state.Addon": 500}
REDIS_STATE_URL = "embedded:"
"""A server that runs while a worker does, with its data in ``.scrapy``. For workers on
several hosts name one that all can reach: ``redis://host:6379/0``."""

REDIS_STATE_PRIORITY_RULES = [
    (r"/flash/\d+$", 100),  # soon over: before all that waits, whoever finds it
    (r"//[^/]+/(category/.*)?$", 75),  # list pages: they lead to products
    (r"/clearance$", -10),  # slow, and nobody hurries for it
]
"""Added to a request's own priority: the first regex that is found in the URL."""

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

ITEM_PIPELINES = {"shop.pipelines.JsonLinesPipeline": 300}
SHOP_ITEMS = "items-%(pid)d.jsonl"
"""File that a worker appends its items to; ``%(pid)d`` is its process id."""

SHOP_LOGIN = ("ann", "open sesame")
"""Name and password of the account that the spider ``members`` uses."""
SHOP_BROWSER = "chromium"
"""Name or path of a Chromium, which needs Playwright (``pip install playwright``).
Without it, a small solver does what the shop's script does."""

ROBOTSTXT_OBEY = True
HTTPPROXY_ENABLED = False
"""The shop is on this machine, whatever proxy the environment names."""
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"

CONCURRENT_REQUESTS = 8
DOWNLOAD_DELAY = 0.1
"""Seconds between two requests of one worker: N workers ask N times as often."""
RETRY_TIMES = 4
"""More than the shop's flaky pages need (see ``storefront.catalog``)."""
