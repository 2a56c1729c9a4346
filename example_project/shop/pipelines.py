"""Items on disk before their page counts as done."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class JsonLinesPipeline:
    """Append each item to this worker's own file, one JSON object a line.

    The line is handed to the operating system before ``process_item`` returns. A
    page is only done after that, so a worker that is killed has either written the
    items of a page or still holds its lease, and the page is delivered again. (A feed
    exporter buffers items; those in its buffer die with the worker.)
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings["SHOP_ITEMS"] % {"pid": os.getpid()})

    def open_spider(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = os.open(self.path, flags, 0o644)

    def process_item(self, item: Any) -> Any:
        # One write for the whole line: no buffer of ours that a SIGKILL could empty.
        line = json.dumps(ItemAdapter(item).asdict()) + "\n"
        os.write(self._descriptor, line.encode())
        return item

    def close_spider(self) -> None:
        os.close(self._descriptor)
