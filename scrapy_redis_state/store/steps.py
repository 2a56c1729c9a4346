"""What the synchronous and the asyncio state have in common: all but the waiting.

Each step is a generator that yields script calls and is sent their replies, so that
one definition serves both.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from scrapy_redis_state.codec.label import SHOWN
from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.canonical import DEFAULT_RULES, UrlRules, url_fingerprint
from scrapy_redis_state.store.errors import RedisStateError, Refused
from scrapy_redis_state.store.forgetting import FORGETTING
from scrapy_redis_state.store.keys import FIRST_EPOCH, CrawlKeys
from scrapy_redis_state.store.messages import (
    FIRST_POSITION,
    SCHEMA_VERSION,
    Answer,
    Bury,
    Claim,
    CrawlStatus,
    ExchangeReply,
    ExchangeRequest,
    Forget,
    JoinRequest,
    JoinStatus,
    Operation,
    Popped,
    ReapReply,
    Status,
    Store,
)
from scrapy_redis_state.store.requests import (
    LeasedRequest,
    RequestLike,
    message_operation,
    store_operation,
)
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.sessions.site import counted_site
from scrapy_redis_state.store.status import StatusReply, status

T = TypeVar("T")
Steps: TypeAlias = Generator[Call[Any], Any, T]

BATCH = 500
"""How many requests one call carries at most."""

PLACES_TRIED = 3
"""How often a lease is asked for when the program has lost its place meanwhile."""

_WITHOUT_SLASHES = ("about:", "data:")
"""Other URLs that Scrapy takes."""

_NOT_OVER_BY_AGE_MS = 10 * 365 * 86_400_000


class CrawlSteps:
    """The state of one program's conversation with one crawl.

    :param rules: which URLs are the same page
    """

    def __init__(self, keys: CrawlKeys, rules: UrlRules = DEFAULT_RULES) -> None:
        self.keys = keys
        self._rules = rules
        self._epoch = FIRST_EPOCH
        self._joining: JoinRequest | None = None
        self._reap_position = FIRST_POSITION
        self._forget()

    def _forget(self) -> None:
        """This program has no place in the crawl, and holds nothing."""
        self._worker = ""
        self._token = ""
        self._batch = 0
        self._stamp = 0
        self._held = 0
        self._unanswered: ExchangeRequest | None = None
        self._spare: list[LeasedRequest] = []
        self._garbage: list[Operation] = []

    # --- producers -------------------------------------------------------------------

    def push_many(
        self, requests: Iterable[RequestLike | Store], priority: int | None
    ) -> Steps[list[bool]]:
        return (yield from self._push([*self.stores(requests, priority)]))

    def push_messages(
        self, messages: Iterable[Mapping[str, Any]], priority: int | None
    ) -> Steps[list[bool]]:
        return (yield from self._push([*self.message_stores(messages, priority)]))

    def stores(
        self, requests: Iterable[RequestLike | Store], priority: int | None
    ) -> Iterator[Store]:
        for one in requests:
            if isinstance(one, Store):
                yield one
            else:
                yield store_operation(one, priority, self._rules)

    def message_stores(
        self, messages: Iterable[Mapping[str, Any]], priority: int | None
    ) -> Iterator[Store]:
        for one in messages:
            yield message_operation(one, priority, self._rules)

    def claim_many(self, fingerprints: Iterable[bytes]) -> Steps[list[bool]]:
        return (yield from self._push([Claim(one) for one in fingerprints]))

    def claim_urls(self, urls: Iterable[str]) -> Steps[list[bool]]:
        return (yield from self.claim_many(map(self._fingerprint, urls)))

    def forget_urls(self, urls: Iterable[str]) -> Steps[list[bool]]:
        operations = [self._forget_operation(url) for url in urls]
        if (yield from self.status()).generation == 0:
            return [False] * len(operations)
        forgotten: list[bool] = []
        for first in range(0, len(operations), BATCH):
            answers = yield from self.push_batch(operations[first : first + BATCH])
            FORGETTING.note()
            if Answer.REFUSED in answers:
                raise Refused(
                    f"The seen set of crawl {self.keys.crawl!r} is a Bloom filter and"
                    " cannot forget a page: push it with dont_filter instead."
                )
            forgotten += [answer is Answer.DONE for answer in answers]
        return forgotten

    def _forget_operation(self, url: str) -> Forget:
        if "://" not in url and not url.startswith(_WITHOUT_SLASHES):
            raise ValueError(
                f"Not the URL of a page, which needs a scheme: {url!r:.{SHOWN}}."
            )
        fingerprint = self._fingerprint(url)
        return Forget(fingerprint, fingerprint, counted_site(url))

    def _fingerprint(self, url: str) -> bytes:
        return url_fingerprint(url, rules=self._rules)

    def _push(self, operations: Sequence[Operation]) -> Steps[list[bool]]:
        stored: list[bool] = []
        for first in range(0, len(operations), BATCH):
            batch = operations[first : first + BATCH]
            stored += were_new((yield from self.push_batch(batch)), len(stored))
        return stored

    def push_batch(self, batch: Sequence[Operation]) -> Steps[tuple[Answer, ...]]:
        """Push what one call carries."""
        while True:
            answers = self.pushed((yield self.push_call(batch)))
            if answers is not None:
                return answers

    def push_call(self, batch: Sequence[Operation]) -> Call[scripts.PushReply]:
        """The call that does it, by what is known of the crawl."""
        return scripts.push(self.keys, self._epoch, uuid.uuid4().hex, batch)

    def pushed(self, reply: scripts.PushReply) -> tuple[Answer, ...] | None:
        """The answers of a reply; None: nothing was done, and another call may be made.

        :raises Refused: the crawl does not take it
        """
        if reply.status == "wrong_type":
            raise self._mismatch(*reply.wrong)
        self._epoch = reply.epoch
        self._adopt_seen_set(reply.seen_set)
        if reply.status == "finished":
            raise Refused(
                f"Crawl {self.keys.crawl!r} is finished and takes no requests: use"
                " another crawl id, or reset it."
            )
        return reply.answers if reply.status == "ok" else None

    def _adopt_seen_set(self, spec: str) -> None:
        """Go by the crawl's, unless another one was asked for."""
        wanted = self.keys.seen_set
        if spec in ("", wanted.spec):
            return
        if wanted.kind != "exact":
            raise self._mismatch("the seen set", spec, wanted.spec)
        self.keys = replace(self.keys, seen_set=SeenSet.parse(spec))

    # --- workers ---------------------------------------------------------------------

    def lease(self, count: int) -> Steps[list[LeasedRequest]]:
        yield from self._settle()
        for _ in range(PLACES_TRIED):
            wanted = count - len(self._spare)
            if wanted < 1 or not (yield from self._enter()):
                break
            if (yield from self._send(self._request((), wanted))) is not None:
                break
        if self._garbage:
            garbage, self._garbage = tuple(self._garbage), []
            yield from self._send(self._request(garbage))
        leased, self._spare = self._spare[:count], self._spare[count:]
        return leased

    def end(
        self,
        leased: Sequence[LeasedRequest],
        end: Callable[[LeasedRequest], Operation],
    ) -> Steps[list[bool]]:
        """End leases; what was leased in a place that is lost is not even asked for.

        Ids and batch numbers of that place may be in use again.
        """
        operations = tuple(end(one) for one in leased if one.worker == self._worker)
        earlier = self._unanswered
        reply = yield from self._settle()
        if earlier is None or earlier.operations != operations:
            reply = None
            if operations and self._worker:
                reply = yield from self._send(self._request(operations))
        if reply is None:
            return [False] * len(leased)
        answers = iter(reply.answers)
        return [
            one.worker == self._worker and next(answers) is Answer.DONE
            for one in leased
        ]

    def sign_off(self) -> Steps[None]:
        yield from self._settle()
        reply = None
        if self._worker:
            reply = yield from self._send(self._request((), leaving=True))
        self._forget()
        if reply and reply.summary.status is CrawlStatus.FINISHED:
            yield from self.reap(limit=1)  # what is left of the seen set

    def _settle(self) -> Steps[ExchangeReply | None]:
        """Learn what became of the call whose reply was lost, if there was one."""
        if self._unanswered is None:
            return None
        return (yield from self._send(self._unanswered))

    def _request(
        self, operations: tuple[Operation, ...], want: int = 0, *, leaving: bool = False
    ) -> ExchangeRequest:
        return ExchangeRequest(
            worker=self._worker,
            token=self._token,
            batch=self._batch + 1,
            last_stamp=self._stamp,
            epoch=self._epoch,
            operations=operations,
            want=want,
            idle=self._held == 0,
            leaving=leaving,
        )

    def _send(self, request: ExchangeRequest) -> Steps[ExchangeReply | None]:
        """One exchange; None when this program has lost its place."""
        self._unanswered = request
        while True:
            request = replace(request, epoch=self._epoch)
            reply: ExchangeReply = yield scripts.exchange(self.keys, request)
            if reply.status is not Status.EPOCH:
                break
            self._epoch = reply.summary.epoch
        if reply.status is not Status.OK:
            self._forget()
            return None
        self._unanswered = None
        self._batch, self._stamp = request.batch, reply.stamp
        self._held -= sum(answer is Answer.DONE for answer in reply.answers)
        self._receive(reply.popped)
        return reply

    def _receive(self, popped: Sequence[Popped]) -> None:
        self._held += len(popped)
        for id, entry in popped:
            try:
                self._spare.append(
                    LeasedRequest.from_entry(id, self._batch, entry, self._worker)
                )
            except ValueError as error:
                self._garbage.append(Bury(id, self._batch, str(error)))

    def _enter(self) -> Steps[bool]:
        """Have a place in the crawl; False if it is finished."""
        if self._worker:
            return True
        # The same until it is answered: a lost reply must not leave a worker behind.
        self._joining = self._joining or JoinRequest(
            worker=uuid.uuid4().hex[:12],
            identity={"schema": SCHEMA_VERSION},
            new_token=uuid.uuid4().hex,
            # Never the one to start a finished crawl over: that is for spiders.
            age_ms=_NOT_OVER_BY_AGE_MS,
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        request = self._joining
        while True:
            reply = yield scripts.join(self.keys, replace(request, epoch=self._epoch))
            if reply.status is not JoinStatus.EPOCH:
                break
            self._epoch = reply.summary.epoch
        self._joining = None
        if reply.status is JoinStatus.FINISHED:
            return False
        if reply.differences:
            found = reply.differences[0]
            raise self._mismatch(found.name, found.stored, found.given)
        self._worker, self._token = request.worker, reply.token
        self._stamp = reply.stamp
        return True

    # --- anybody ---------------------------------------------------------------------

    def reap(self, limit: int) -> Steps[ReapReply]:
        call = scripts.reap(self.keys, limit, self._reap_position)
        reply: ReapReply = yield call
        self._reap_position = reply.position
        yield from self._tidy(reply.tidy)
        return reply

    def _tidy(self, position: str) -> Steps[None]:
        while position:
            position = yield scripts.tidy(self.keys, position)

    def prioritize(self, pattern: re.Pattern[str], added: int) -> Steps[int]:
        changed, done, cursor = 0, set[str](), "0"
        while True:
            reply: scripts.ScanReply = yield scripts.scan(self.keys, cursor)
            # One that comes twice must not be raised twice.
            ids = {one.id for one in reply.requests if _matches(pattern, one)} - done
            if ids:
                done |= ids
                changed += yield scripts.prioritize(self.keys, added, sorted(ids))
            cursor = reply.cursor
            if cursor == "0":
                return changed

    def status(self) -> Steps[StatusReply]:
        while True:
            reply: StatusReply = yield status(self.keys, self._epoch)
            if reply.wrong:
                raise self._mismatch(*reply.wrong)
            if reply.summary.epoch in (0, self._epoch):
                return reply
            self._epoch = reply.summary.epoch

    def reset(self, *, force: bool) -> Steps[None]:
        while True:
            call = scripts.reset(self.keys, self._epoch, uuid.uuid4().hex, force=force)
            reply: scripts.ResetReply = yield call
            if reply.status == "busy":
                raise Refused(
                    f"Crawl {self.keys.crawl!r} has {reply.value} live workers: stop"
                    " them first, or reset it with force=True."
                )
            if reply.status != "epoch":
                break
            self._epoch = reply.value
        self._epoch = max(reply.value, FIRST_EPOCH)
        self._forget()
        yield from self.reap(limit=1)

    def _mismatch(self, name: str, stored: str, expected: str) -> Refused:
        return Refused(
            f"Crawl {self.keys.crawl!r} cannot be used: {name} is {stored!r},"
            f" not {expected!r}."
        )


def were_new(answers: Iterable[Answer], before: int) -> list[bool]:
    """Whether each request that was pushed was new.

    :param before: how many were answered earlier
    :raises RedisStateError: if the server had no room for one
    """
    new: list[bool] = []
    for answer in answers:
        if answer is Answer.REFUSED:
            raise RedisStateError(
                f"The server has no room: the first {before + len(new)} were stored, or"
                " known; raise its maxmemory, or wait and send the rest."
            )
        new.append(answer is Answer.STORED)
    return new


def _matches(pattern: re.Pattern[str], request: Popped) -> bool:
    try:
        leased = LeasedRequest.from_entry(request.id, 0, request.entry, "")
    except ValueError:
        return False  # garbage has no URL
    return pattern.search(leased.url) is not None
