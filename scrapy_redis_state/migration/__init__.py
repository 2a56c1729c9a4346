"""What projects that come from scrapy-redis import: the names that they know."""

from scrapy_redis_state.migration.fingerprinter import ScrapyRedisFingerprinter
from scrapy_redis_state.migration.spiders import (
    RedisCrawlSpider,
    RedisMixin,
    RedisSpider,
)

__all__ = ["RedisCrawlSpider", "RedisMixin", "RedisSpider", "ScrapyRedisFingerprinter"]
