"""The arguments that a spider was started with."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from scrapy.crawler import Crawler

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def spider_arguments(crawler: Crawler) -> dict[str, str]:
    """What ``scrapy crawl -a NAME=VALUE`` or ``crawl(Spider, name=value)`` gave.

    Scrapy passes them on to the spider and keeps them nowhere, and a spider may do with
    them what it likes, so they are read from the call of ``Crawler.crawl()`` that is
    under way while components are made. Empty when called at another time.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("crawl", "crawl_async"):
            found = frame.f_locals
            if found.get("self") is crawler and "kwargs" in found:
                positional = enumerate(found.get("args", ()))
                given = {str(i): value for i, value in positional} | found["kwargs"]
                return {name: _text(value) for name, value in given.items()}
        frame = frame.f_back
    return {}


def _text(value: object) -> str:
    """The same in every process, also for objects that a script gives."""
    if isinstance(value, set | frozenset):
        value = sorted(map(str, value))
    return _ADDRESS.sub("", str(value))
