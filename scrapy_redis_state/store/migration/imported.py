"""A crawl that begins with what another was."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.canonical import DEFAULT_RULES, UrlRules
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import (
    CrawlStatus,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Seeding,
)
from scrapy_redis_state.store.operator_steps import OperatorSteps
from scrapy_redis_state.store.state import CrawlState

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.messages import Store
    from scrapy_redis_state.store.steps import Steps


class ImportSteps(OperatorSteps):
    """Begins a crawl, and says what its workers must agree with."""

    def begin(
        self, identity: Mapping[str, str], *, start: bool, given: bool
    ) -> Steps[None]:
        request = JoinRequest(
            worker=uuid.uuid4().hex[:12],
            identity=dict(identity),
            new_token=uuid.uuid4().hex,
            given=given,
            seeding=Seeding.OPEN if start else Seeding.DONE,
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self._refuse_used((yield from self._join(replace(request, dry_run=True))))
        reply = yield from self._join(request)
        self._worker, self._token = request.worker, reply.token
        self._stamp = reply.stamp
        try:
            self._refuse_used(reply)
            # Paused, so that nobody crawls a half of it, or takes it for drained.
            yield from self.set_status(CrawlStatus.PAUSED)
        finally:
            yield from self.sign_off()

    def _join(self, request: JoinRequest) -> Steps[JoinReply]:
        while True:
            call = scripts.join(self.keys, replace(request, epoch=self._epoch))
            reply: JoinReply = yield call
            if reply.status is not JoinStatus.EPOCH:
                return reply
            self._epoch = reply.summary.epoch

    def _refuse_used(self, reply: JoinReply) -> None:
        """A crawl that is there must have nothing in it, and nobody."""
        if reply.status is JoinStatus.CREATED:
            return
        found = reply.summary
        counts = {
            "pending": found.pending,
            "in flight": found.in_flight,
            "delayed": found.delayed,
            "suspects": found.suspects,
            "dead": found.dead,
            "done": found.done,
            "seen": found.seen,
        }
        has = [f"{count} {name}" for name, count in counts.items() if count]
        if reply.status is JoinStatus.RESUMED and not has:
            if found.status is CrawlStatus.RUNNING:
                return
            has = [found.status.value]
        raise Refused(
            f"Crawl {self.keys.crawl!r} is not empty"
            f" ({', '.join(has) or reply.status.value}): import into another crawl id,"
            " or delete it first."
        )


class ImportedCrawl(CrawlState):
    """An empty crawl that is filled, and that workers may join when it is.

    :param client: closed with this object
    :param rules: which URLs are the same page
    """

    def __init__(
        self, client: Redis, keys: CrawlKeys, rules: UrlRules = DEFAULT_RULES
    ) -> None:
        super().__init__(client, keys, rules=rules)
        self._steps: ImportSteps = ImportSteps(keys, rules)

    def begin(
        self, identity: Mapping[str, str], *, start: bool = False, given: bool = False
    ) -> None:
        """Begin the crawl, paused.

        :param identity: what its workers must agree with
        :param start: whether ``start()`` is to be run by one of them
        :param given: the crawl id was chosen by the user
        :raises Refused: if it is not empty
        """
        self._run(self._steps.begin(identity, start=start, given=given))

    def mark_seen(self, fingerprints: Sequence[bytes]) -> int:
        """Mark pages as seen; how many were new."""
        return sum(self._run(self._steps.claim_many(fingerprints)))

    def store(self, requests: Sequence[Store]) -> int:
        """Store requests; how many were new."""
        return sum(self.push_many(requests))

    def open(self) -> None:
        """Let workers begin."""
        self.resume()
