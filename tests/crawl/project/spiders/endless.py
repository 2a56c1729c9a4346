from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class EndlessSpider(scrapy.Spider):
    """Each page leads to a new one, for ever, unless something stops it."""

    name = "endless"

    def __init__(self, site: str, **kwargs: Any) -> None:
        super().__init__()
        self.start_urls = [f"{site}/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        yield {"number": number}
        yield response.follow(f"/{2 * number + 1}")
        yield response.follow(f"/{2 * number + 2}")


class TickerSpider(scrapy.Spider):
    """A page that asks for itself again and again, as often as ``times``."""

    name = "ticker"

    def __init__(self, site: str, secs: float, times: int, **kwargs: Any) -> None:
        super().__init__()
        self.site, self.secs, self.times = site, float(secs), int(times)
        self.start_urls = [f"{site}/start"]

    def parse(self, response: Response) -> Iterator[Any]:
        meta = {"redis_state_revisit_secs": self.secs}
        for _ in range(self.times):
            yield scrapy.Request(f"{self.site}/price", self.parse_price, meta=meta)

    def parse_price(self, response: Response) -> dict[str, Any]:
        return {"price": 1}
