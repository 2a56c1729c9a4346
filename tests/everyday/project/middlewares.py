from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.everyday.project.spiders.requests import facts

if TYPE_CHECKING:
    from scrapy.http import Request


class NoteFacts:
    """Leaves in ``meta`` what came from the scheduler, before anything changes it."""

    def process_request(self, request: Request) -> None:
        request.meta["facts"] = facts(request)


class LivePage:
    """Stands for a browser's page, which belongs to one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Browser:
    """Does to a request what scrapy-playwright's download handler does."""

    def process_request(self, request: Request) -> None:
        if request.meta.get("playwright_include_page"):
            request.meta["playwright_page"] = LivePage()
