"""A small random site: what each of its pages does when it is run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scrapy_redis_state.store.messages import Store


class Visit(NamedTuple):
    """What a request asks for."""

    page: int
    attempt: int = 0
    """How many visits were answered with a retry before this one."""
    filtered: bool = True

    @property
    def fingerprint(self) -> bytes:
        return b"page %d" % self.page if self.filtered else b""

    def store(self, priority: int = 0, seed: bytes = b"") -> Store:
        payload = f"{self.page};{self.attempt};{int(self.filtered)}".encode()
        return Store(payload, priority, self.fingerprint, seed=seed)

    @classmethod
    def read(cls, payload: bytes) -> Visit:
        page, attempt, filtered = map(int, payload.split(b";"))
        return cls(page, attempt, bool(filtered))


@dataclass
class Graph:
    """Pages by number, and the start requests."""

    starts: list[Visit]
    links: dict[int, list[int]] = field(default_factory=dict)
    """Filtered links."""
    unfiltered: dict[int, list[int]] = field(default_factory=dict)
    """Links with ``dont_filter``; without circles."""
    retries: dict[int, int] = field(default_factory=dict)
    """How often a visit is replaced by an unfiltered retry before it succeeds."""
    failures: dict[int, int] = field(default_factory=dict)
    """How often the callback raises, counted over all visits."""
    killers: Collection[int] = ()
    """Pages that kill their worker each time."""

    def children(self, visit: Visit) -> list[Visit]:
        """What a visit that does not fail makes, in order."""
        if self.is_retried(visit):
            return [Visit(visit.page, visit.attempt + 1, filtered=False)]
        followed = [Visit(page) for page in self.links.get(visit.page, ())]
        repeated = self.unfiltered.get(visit.page, ())
        return followed + [Visit(page, filtered=False) for page in repeated]

    def is_retried(self, visit: Visit) -> bool:
        return visit.attempt < self.retries.get(visit.page, 0)

    def seeds(self) -> Iterator[Store]:
        """The start requests: equal ones are told apart by their occurrence."""
        given: Counter[Visit] = Counter()
        for visit in self.starts:
            given[visit] += 1
            name = f"{visit.page} {visit.filtered} {given[visit]}"
            yield visit.store(priority=1, seed=name.encode())

    def reachable(self, without: Collection[int] = ()) -> set[int]:
        """Pages that are visited if those in *without* never end well."""
        found: set[int] = set()
        left = [visit.page for visit in self.starts]
        while left:
            page = left.pop()
            if page not in found:
                found.add(page)
                if page not in without:
                    left += self.links.get(page, [])
                    left += self.unfiltered.get(page, [])
        return found

    def visits(self, visit: Visit) -> Counter[int]:
        """How often each page is visited for one request, but for filtered links."""
        retried = max(0, self.retries.get(visit.page, 0) - visit.attempt)
        total = Counter({visit.page: retried + 1})
        for page in self.unfiltered.get(visit.page, ()):
            total += self.visits(Visit(page))
        return total

    def visits_without_faults(self) -> Counter[int]:
        """How often each page is visited when nothing goes wrong."""
        reachable = self.reachable()
        filtered = {visit.page for visit in self.starts if visit.filtered}
        filtered |= {page for one in reachable for page in self.links.get(one, ())}
        total = Counter({page: self.failures.get(page, 0) for page in reachable})
        for page in filtered:
            total += self.visits(Visit(page))
        for visit in self.starts:
            if not visit.filtered:
                total += self.visits(visit)
        return +total


def random_graph(rng: random.Random, size: int, *, killers: bool) -> Graph:
    """A site of *size* pages, most of them reachable."""
    pages = range(size)
    graph = Graph([])
    for page in pages:
        graph.links[page] = [rng.randrange(size) for _ in range(rng.randint(0, 4))]
        chance = rng.random()
        if chance < 0.15:
            graph.retries[page] = rng.randint(1, 2)
        elif chance < 0.3:
            graph.failures[page] = rng.randint(1, 2)
        elif chance < 0.45 and page < size - 1:
            graph.unfiltered[page] = [rng.randrange(page + 1, size)]
    starts = [Visit(rng.choice(pages), 0, rng.random() < 0.5) for _ in range(5)]
    graph.starts = [*starts, starts[0]]
    if killers:
        graph.killers = frozenset(rng.sample(pages, size // 3))
        graph.failures = {}
    return graph
