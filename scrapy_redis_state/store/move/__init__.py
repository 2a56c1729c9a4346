"""A whole crawl as a file, and back: between servers, prefixes and kinds of servers."""

from scrapy_redis_state.store.move.exporting import export_crawl
from scrapy_redis_state.store.move.form import Moved
from scrapy_redis_state.store.move.importing import import_crawl

__all__ = ["Moved", "export_crawl", "import_crawl"]
