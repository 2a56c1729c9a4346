from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import DropItem

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class Recorder:
    """Writes each item to its worker's file before its page can be done.

    One write to the kernel for an item: a worker that is killed has either recorded it
    or still holds the page.
    """

    def __init__(self, directory: str) -> None:
        self.path = Path(directory) / f"{os.getpid()}.jsonl"
        self.descriptor = -1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings["RECORDS"])

    def open_spider(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.descriptor = os.open(self.path, flags, 0o644)

    def process_item(self, item: Any) -> Any:
        os.write(self.descriptor, json.dumps(item).encode() + b"\n")
        return item

    def close_spider(self) -> None:
        os.close(self.descriptor)


class Fates:
    """Treats an item as its field ``fate`` says: ``drop`` or ``raise``."""

    def process_item(self, item: Any) -> Any:
        if item.get("fate") == "drop":
            raise DropItem("as it wished")
        if item.get("fate") == "raise":
            raise ValueError("the pipeline cannot take this item")
        return item
