"""A site that is a graph of links, with pages that answer when a test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from urllib.parse import urlsplit

from tests.site import Site

Links = Callable[[int], Iterable[int]]

GATE_SECS = 60
"""A page that is held is answered after so long at the latest."""


FAN = 40
"""Links of the first page: enough for several workers to have their hands full."""


def tree(number: int) -> Iterable[int]:
    """Two children, and two links to pages that others link to as well."""
    if not number:
        return range(1, FAN + 1)
    return (2 * number + 1, 2 * number + 2, number // 2 + 1, number * 7 + 3)


def star(number: int) -> Iterable[int]:
    """The first page links to all others."""
    return () if number else range(1, 1_000)


class Graph(Site):
    """Pages 0, 1, 2... at ``/page/<number>``.

    ``delay`` is how long each but the first takes, in seconds. Links to pages that do
    not exist are left out.
    """

    def __init__(self, pages: int, *, links: Links = tree, delay: float = 0) -> None:
        super().__init__()
        self.paths = frozenset(map(path_of, range(pages)))
        """The site's own list of what there is to crawl."""
        self._pages = pages
        self._links = links
        self._delay = delay
        self._gates: dict[str, Gate] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gate in self._gates.values():
            gate.open()
        super().__exit__(kind, error, trace)

    def hold_all(self) -> Gate:
        """Keep the answer to all pages but the first."""
        return self.hold(*range(1, self._pages))

    def hold(self, *numbers: int, visits: int = 1, secs: float = GATE_SECS) -> Gate:
        """Keep the answer to the first visits to some pages until the gate is open.

        It opens by itself after so many seconds.
        """
        gate = Gate(visits, secs)
        for number in numbers:
            self._gates[path_of(number)] = gate
        return gate

    def visit(self, path: str) -> int:
        visit = super().visit(path)
        gate = self._gates.get(path)
        if gate is not None and visit <= gate.visits:
            gate.wait(path)
        if path != path_of(0):
            time.sleep(self._delay)
        return visit

    def body(self, path: str) -> str:
        kind, _, number = path.lstrip("/").partition("/")
        if kind != "page":
            return super().body(path)
        links = [n for n in self._links(int(number)) if n < self._pages]
        return "".join(f'<a href="{path_of(n)}">.</a>' for n in links)


class Gate:
    """Where visits wait."""

    def __init__(self, visits: int, secs: float) -> None:
        self.visits = visits
        self.secs = secs
        self.waiting: set[str] = set()
        """Paths whose visits wait, or have waited, here."""
        self._opened = threading.Event()

    def wait(self, path: str) -> None:
        self.waiting.add(path)
        self._opened.wait(self.secs)

    def open(self) -> None:
        self._opened.set()


def path_of(number: int) -> str:
    return f"/page/{number}"


def path_in(url: str) -> str:
    return urlsplit(url).path
