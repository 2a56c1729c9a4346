"""Requests that only this process can run, and the pages that must wait for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_redis_state.store.messages import Claim, Release
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.outbox import Entry
from scrapy_redis_state.worker.seeding import StartRun

if TYPE_CHECKING:
    from scrapy_redis_state.store.messages import PageEnd
    from scrapy_redis_state.worker.lease import LocalPage
    from scrapy_redis_state.worker.outbox import Outbox

logger = logging.getLogger(__name__)


class LocalPages:
    """All local requests that are not done: being checked, waiting, or running.

    Such a request dies with its process, so its owner (the nearest page that is leased,
    or the run of ``start()``) is not reported as done before it is: then the owner is
    repeated, and makes it again. Its fingerprint is marked as seen together with the
    owner's ack, or a crash in between would leave it seen and never run.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._pages: set[LocalPage] = set()
        self._filtered: dict[bytes, LocalPage] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, page: LocalPage) -> bool:
        """Take it on; False if this process is at an equal one already."""
        equal = self._filtered.get(page.fingerprint)
        if equal is not None and not _is_orphan(equal):
            return False
        if page.fingerprint:
            self._filtered[page.fingerprint] = page
        self._pages.add(page)
        if page.owner is not None:
            page.owner.waits_for += 1
        return True

    def end(self, page: LocalPage, end: PageEnd | None) -> None:
        """It ended; with *end*, its owner has to end so, and do it again."""
        page.is_over = True
        page.request = None  # timers of its context outlive it
        if page not in self._pages:
            return
        owner = page.owner
        if isinstance(owner, Lease) and end is not None:
            owner.end_with(end)
        elif page.fingerprint and end is None:
            if owner is None or not page.is_made_again:
                self._outbox.add(Entry(Claim(page.fingerprint)))
            else:
                owner.seen.append(page.fingerprint)
        self.forget(page)

    def forget(self, page: LocalPage) -> None:
        """It needs no run, here or elsewhere."""
        if page not in self._pages:
            return
        self._pages.remove(page)
        if self._filtered.get(page.fingerprint) is page:
            del self._filtered[page.fingerprint]
        if isinstance(page.owner, Lease):
            self._outbox.settled(page.owner)
        elif isinstance(page.owner, StartRun):
            page.owner.waits_for -= 1

    def abandon(self, page: LocalPage) -> None:
        """It was begun, and did not come to its end."""
        page.is_over = True
        if page in self._pages:
            self.give_up(page)
        page.request = None

    def give_up(self, page: LocalPage) -> None:
        """This process will not run it: its owner is handed back, to be repeated."""
        owner = page.owner
        if page not in self._pages and owner is not None:
            owner.waits_for += 1  # never to be settled, so a start() is not reported
            self._pages.add(page)
        if isinstance(owner, Lease):
            owner.end_with(Release(owner.id, owner.batch))
            self.forget(page)
        elif owner is None:
            self._pages.discard(page)
            logger.error(
                "%(request)s is lost: it could not be stored, and belongs to no page"
                " that could be repeated",
                {"request": page.request},
            )

    def rejoined(self) -> None:
        """Owners are leased to others now, and start() begins anew."""
        self._pages = {page for page in self._pages if not page.is_made_again}
        self._filtered = {
            page.fingerprint: page for page in self._pages if page.fingerprint
        }

    def clear(self) -> None:
        self._pages.clear()
        self._filtered.clear()


def _is_orphan(page: LocalPage) -> bool:
    """Whether nothing waits for it: the ``start()`` that made it raised since then."""
    return isinstance(page.owner, StartRun) and page.owner.is_over
