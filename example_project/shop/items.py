"""What the spiders find."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.http import Response
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Product:
    """A product of the shop, and who delivered it."""

    id: int
    name: str
    price: str
    url: str
    worker_pid: int
    """Process id of the worker that parsed the page."""
    delivered_at: float
    """When it was parsed, in seconds since the epoch."""

    @classmethod
    def on(cls, response: Response) -> Self:
        """Read the product of a page."""
        return cls(
            id=int(response.css("article::attr(data-id)").get("")),
            name=response.css("h1::text").get(""),
            price=response.css(".price::text").get(""),
            url=response.url,
            worker_pid=os.getpid(),
            delivered_at=time.time(),
        )
