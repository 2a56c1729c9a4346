from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.everyday.project.spiders.base import Output, SiteSpider, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class ContractSpider(SiteSpider):
    """Has a contract for a page of the site that the environment names."""

    name = "contract"

    def __init__(self, site: str = "", **kwargs: str) -> None:
        super().__init__(site=site or os.environ.get("SITE", ""), **kwargs)

    def parse(self, response: Response) -> Iterator[Output]:
        yield {"page": path_of(response)}
        yield self.page("/next")

    parse.__doc__ = f"""
    @url {os.environ.get("SITE")}/contract
    @returns items 1
    @returns requests 1
    """
