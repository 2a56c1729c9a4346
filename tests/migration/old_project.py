"""One project, once for scrapy-redis and once moved: another import, other settings."""

from __future__ import annotations

from pathlib import Path

BEFORE = "from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider"
AFTER = "from scrapy_redis_state.migration import RedisCrawlSpider, RedisSpider"

SPIDERS = """
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

{line}


class LinksSpider(CrawlSpider):
    name = "links"

    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def __init__(self, site="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{{site}}/start"]

    def parse_page(self, response):
        return {{"url": response.url}}


class MyCrawler(RedisCrawlSpider):
    name = "mycrawler_redis"
    redis_key = "mycrawler:start_urls"

    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def __init__(self, *args, **kwargs):
        domain = kwargs.pop("domain", "")
        self.allowed_domains = list(filter(None, domain.split(",")))
        super().__init__(*args, **kwargs)

    def parse_page(self, response):
        return {{"url": response.url}}


class MySpider(RedisSpider):
    name = "myspider_redis"
    redis_key = "%(name)s:urls"
    redis_batch_size = 3

    def make_request_from_data(self, data):
        url, _, tag = data.decode().partition(" ")
        return Request(url, dont_filter=True, meta={{"tag": tag}})

    def parse(self, response):
        return {{"url": response.url, "tag": response.meta["tag"]}}
"""

COMMON = """
BOT_NAME = "old"
SPIDER_MODULES = ["spiders"]
CONCURRENT_REQUESTS = 4
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
LOG_LEVEL = "INFO"
MAX_IDLE_TIME_BEFORE_CLOSE = 3
"""

OLD_SETTINGS = """
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.{queue}"
REDIS_URL = "{url}"
"""

NEW_SETTINGS = """
ADDONS = {{"scrapy_redis_state.Addon": 500}}
REDIS_STATE_URL = "{url}"
REDIS_STATE_LEASE_SECS = 2
REQUEST_FINGERPRINTER_CLASS = "scrapy_redis_state.migration.ScrapyRedisFingerprinter"
SCHEDULER_PERSIST = True
REDIS_URL = "{url}"
"""


def write_project(
    directory: Path, url: str, *, moved: bool, queue: str = "PriorityQueue"
) -> Path:
    """Write the project into a directory, which is returned.

    :param url: of the server
    :param moved: for our package
    :param queue: which queue of scrapy-redis it has
    """
    directory.mkdir()
    settings = NEW_SETTINGS if moved else OLD_SETTINGS
    texts = {
        "scrapy.cfg": "[settings]\ndefault = settings\n",
        "settings.py": COMMON + settings.format(url=url, queue=queue),
        "spiders.py": SPIDERS.format(line=AFTER if moved else BEFORE),
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return directory
