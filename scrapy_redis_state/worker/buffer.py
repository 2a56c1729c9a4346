"""The prefetch buffer: what this worker may start next.

Requests leased to it, and requests that only this process can run, by priority.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from scrapy_redis_state.worker.lease import Lease, LocalPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_redis_state.store.messages import Summary

Page = TypeVar("Page", Lease, LocalPage)

CALM_SECS = 0.25
"""Refilling more often than so is no use to anyone: each time is a round trip. So half
of what is fetched is to last as long, if as much may be fetched."""


class PrefetchBuffer:
    """Highest priority first; in order of arrival among equals.

    It also finds out how much to prefetch: more when the crawl had to wait for
    requests (at least this worker's fair share of what there is), or starts so many
    that it would be refilled all the time; less when they lay unused. So a worker keeps
    busy without sitting on work that others could do.

    That much is to lie here when the answer comes, however far the server is: what is
    going to be started meanwhile is asked for as well, and in time. That is taken to be
    as many as during the last exchange. If there were too few then, it is at least as
    many as are started in the time of an exchange at the rate of before.

    :param limit: how much to prefetch at most. What is started meanwhile is taken to be
        less than that, so twice as many less one are held at most; where it is 1, one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[int, int, Lease | LocalPage]] = []
        self._order = count()
        self._leased = 0
        self._target = 1
        self._taken = 0
        self._measured_secs = 0.0
        self._satisfied = False
        self._starved = False
        self._outbid = False
        self._is_stuck = False
        self._taken_in_exchange = 0
        self._taken_since_reply = 0
        self._meanwhile = 0

    def __len__(self) -> int:
        """How many leased requests are in it."""
        return self._leased

    def add(self, page: Lease | LocalPage) -> None:
        self._leased += isinstance(page, Lease)
        heapq.heappush(self._heap, (-page.priority, next(self._order), page))

    def take(
        self, crawl: Summary, unsent: int | None = None
    ) -> Lease | LocalPage | None:
        """The next request to start; None if there is none, or a better to fetch.

        :param unsent: best priority of what is on its way to the frontier
        """
        self._is_stuck = False
        self._outbid = self._should_fetch_first(crawl.best_priority, unsent)
        if not self._heap or self._outbid:
            self._starved = True
            return None
        page = heapq.heappop(self._heap)[2]
        if isinstance(page, Lease):
            self._leased -= 1
            self._taken += 1
            self._taken_in_exchange += 1
            self._taken_since_reply += 1
        return page

    def _should_fetch_first(self, *priorities: int | None) -> bool:
        """A local request must not go before better ones that others can see."""
        page = self._heap[0][2] if self._heap else None
        return isinstance(page, LocalPage) and any(
            priority is not None and priority > page.priority for priority in priorities
        )

    def want(self, elapsed_secs: float = CALM_SECS, fair_share: int = 1) -> int:
        """How many requests to ask the server for now, in an exchange that begins.

        0 when what was there lay too long, until the crawl asks again: else this
        worker would take at once what it has just left to others.

        :param elapsed_secs: since this was asked before
        :param fair_share: how much of what there is in the crawl falls to one worker;
            1: unknown
        """
        self._taken_in_exchange = 0
        if self._is_stuck:
            return 0
        self._measured_secs += elapsed_secs
        if self._starved and (self._satisfied or fair_share > self._target):
            doubled = self._target * 2 if self._satisfied else 0
            self._adapt_to(max(doubled, fair_share))
        elif self._measured_secs >= CALM_SECS or self._taken >= 4 * self._target:
            self._adapt_to(self._needed())
        left = max(0, self._leased - self._meanwhile)
        return max(0, self._target - left)

    def _needed(self) -> int:
        needed = self._taken * 2
        if needed < self._target:
            return self._target - 1
        is_calm = self._measured_secs >= CALM_SECS * 2
        return needed if self._satisfied and not is_calm else self._target

    def _adapt_to(self, target: int) -> None:
        self._target = max(1, min(self._limit, target))
        self._taken, self._measured_secs = 0, 0.0

    def refilled(self, wanted: int, got: int, waited: float = 0) -> None:
        """Learn from a reply: asking for more is of use only while there is more.

        :param waited: which part of the time since the reply before was spent waiting
            for this one, from 0 to 1
        """
        if wanted:
            self._satisfied = got >= wanted
        meanwhile = self._taken_in_exchange
        if self._starved and self._satisfied:
            at_that_rate = round(self._taken_since_reply * waited)
            meanwhile = max(meanwhile, at_that_rate, self._meanwhile)
        self._meanwhile = min(meanwhile, self._limit - 1)
        if got:
            self._starved = False
            self._taken_since_reply = 0

    def is_low(self) -> bool:
        """Whether to ask for more: what is left has to wait, or will not last.

        It is less than half of the target, or gone before an answer can be here.
        """
        if self._is_stuck:
            return self._outbid
        will_end = self._leased <= self._meanwhile
        return self._outbid or will_end or self._leased * 2 < self._target

    def remove_worse_than(self, priority: int) -> list[Lease]:
        """Take out the leased requests with a lower priority."""
        return self._remove(Lease, lambda lease: lease.priority < priority)

    def remove_older_than(self, time: float) -> list[Lease]:
        """Take out the leased requests that came before *time*."""
        removed = self._remove(Lease, lambda lease: lease.since < time)
        self._is_stuck |= bool(removed)
        return removed

    def remove_leased(self) -> list[Lease]:
        """Take out all leased requests."""
        return self._remove(Lease, lambda _: True)

    def remove_local(
        self, unwanted: Callable[[LocalPage], bool] = lambda _: True
    ) -> list[LocalPage]:
        """Take out local requests."""
        return self._remove(LocalPage, unwanted)

    def _remove(self, kind: type[Page], unwanted: Callable[[Page], bool]) -> list[Page]:
        removed, kept = [], []
        for entry in self._heap:
            page = entry[2]
            if isinstance(page, kind) and unwanted(page):
                removed.append(page)
            else:
                kept.append(entry)
        if removed:
            self._heap = kept
            heapq.heapify(self._heap)
            self._leased -= len(removed) if kind is Lease else 0
        return removed
