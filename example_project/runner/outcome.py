"""What came of a crawl, and whether the promises were kept."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storefront.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Item:
    """A product as some worker delivered it."""

    product: int
    delivered_at: float
    """Seconds since the epoch."""


class Hit(NamedTuple):
    """A request in the site's access log."""

    path: str
    status: int
    time: float = 0.0
    """Seconds since the epoch."""
    method: str = "GET"
    agent: str = ""


class WorkerOutcome(NamedTuple):
    """One worker at the end of the run."""

    number: int
    pid: int
    role: str
    items: tuple[Item, ...]
    redelivered: int
    """Pages it was given after another worker, as it counted them when it closed."""
    closed: str
    """Close reason, or the signal that ended it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a crawl is judged by, over all the runs that it took."""

    catalog: Catalog
    """The site's own list of products."""
    workers: tuple[WorkerOutcome, ...]
    hits: tuple[Hit, ...]
    held: int
    """Leases of workers when they died."""
    given_up: int
    """Requests that failed too often (dead letters)."""
    is_resumed: bool = False
    needs_session: bool = False
    """Whether the pages are for those who log in and pass the challenge."""

    def items(self) -> list[Item]:
        """Return the items of all workers, in the order they were delivered."""
        items = chain.from_iterable(worker.items for worker in self.workers)
        return sorted(items, key=lambda item: item.delivered_at)

    def lost(self) -> list[int]:
        """Return the products of the site that no worker wrote."""
        delivered = {item.product for item in self.items()}
        return sorted(set(self.catalog.products()) - delivered)

    def repeated(self) -> int:
        """Count the items that were written although their product had been."""
        items = self.items()
        return len(items) - len({item.product for item in items})

    def redelivered(self) -> int:
        """Count the pages that were given to a worker after another one."""
        return sum(worker.redelivered for worker in self.workers)

    def fetched_again(self) -> int:
        """Count the fetches of pages that the site had answered with 200 before."""
        good = [hit.path for hit in pages(self.hits) if hit.status == HTTPStatus.OK]
        return len(good) - len(set(good))

    def logins(self) -> list[Hit]:
        """Return the logins that the site accepted."""
        return self._posted("/login", HTTPStatus.SEE_OTHER)

    def solved(self) -> list[Hit]:
        """Return the answers to challenges for which the site gave clearance."""
        return self._posted("/challenge", HTTPStatus.OK)

    def places(self, products: Iterable[int]) -> list[int]:
        """Return the places of these products in the order of delivery, from 1."""
        wanted = set(products)
        order = dict.fromkeys(item.product for item in self.items())
        return [place for place, product in enumerate(order, 1) if product in wanted]

    def problems(self) -> list[str]:
        """Return each promise that was not kept, as a sentence."""
        found = []
        if lost := self.lost():
            found.append(f"lost products ({len(lost)}): {lost[:20]}")
        if not self.held and not self.is_resumed:
            found.append("the crawl was over before a worker could be killed")
        if (repeated := self.repeated()) > self.held:
            found.append(f"{repeated} items were repeated, at most {self.held} may be")
        # A worker of an interrupted run may have died in the middle of it.
        if self.needs_session and not self.is_resumed:
            found += [
                f"{what}: {len(hits)}, should be 1 for all workers"
                for what, hits in (
                    ("logins", self.logins()),
                    ("challenges solved", self.solved()),
                )
                if len(hits) != 1
            ]
        found += [
            f"worker {worker.number} closed with {worker.closed!r}"
            for worker in self.workers
            if worker.role not in {"killed", "run interrupted"}
            and worker.closed not in {"finished", "shutdown"}
        ]
        return found

    def _posted(self, path: str, status: int) -> list[Hit]:
        wanted = ("POST", path, status)
        return [h for h in self.hits if (h.method, h.path, h.status) == wanted]


def pages(hits: Iterable[Hit]) -> list[Hit]:
    """Leave out robots.txt, which each worker reads for itself."""
    return [hit for hit in hits if hit.path != "/robots.txt"]
