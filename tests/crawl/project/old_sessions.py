"""An extension that keeps sessions in memory for as long as they are not dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis_state.worker.sessions import cache, entry

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class OldSessions:
    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        entry.MAX_AGE_SECS = cache.REFRESH_SECS = 1000.0
        return cls()
