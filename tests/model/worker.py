"""The client's side of the protocol: the least worker that keeps the promises.

It is driven step by step: the owner asks it what to send, tells it the reply, and in
between starts pages, adds what they make, and ends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    CrawlStatus,
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    JoinStatus,
    Operation,
    PageEnd,
    Popped,
    Release,
    Seeded,
    SeedFailed,
    Status,
    Store,
    Summary,
)
from tests.model.state import Entry

ENTERED = (JoinStatus.CREATED, JoinStatus.JOINED, JoinStatus.RESUMED)


@dataclass(eq=False)
class Page:
    """A request leased to this worker, until the server confirms its end."""

    id: str
    batch: int
    payload: bytes
    started: bool = False
    ended: bool = False
    stale: bool = False
    """Lost to a rejoin: others get it, and its end is not reported."""
    refused: int = 0
    """How many of its requests the server had no room for, and has not stored since."""
    end: Item | None = None
    """Its end, withheld while any of its requests is parked."""


@dataclass(eq=False)
class Item:
    """An operation on its way, and the page it belongs to or ends."""

    operation: Operation
    page: Page | None = None
    parked: bool = False


@dataclass(eq=False)
class Start:
    """A run of ``start()`` under the seeding token."""

    token: int
    given: int = 0
    """How many requests it gave."""
    end: Seeded | SeedFailed | None = None
    """How it ended; not sent before all it gave is stored."""


@dataclass
class Call:
    """What is sent, unchanged, until it is answered."""

    request: JoinRequest | ExchangeRequest
    since: int
    """When it was first sent, in ms of the worker's clock."""
    items: list[Item] = field(default_factory=list)


class ModelWorker:
    """One worker of a crawl, through any number of rejoins.

    :param join: the first join, but for the worker id
    :param lease_ms: so long without an answer, and nothing more is started
    :param limit: operations in one exchange
    :param prefetch: requests held and not started
    :param bound: parked requests above which nothing more is popped
    """

    def __init__(
        self,
        name: str,
        join: JoinRequest,
        *,
        lease_ms: int,
        limit: int = 4,
        prefetch: int = 3,
        bound: int = 3,
    ) -> None:
        self.name = name
        self.lease_ms, self.limit = lease_ms, limit
        self.prefetch, self.bound = prefetch, bound
        self.life = 0
        self.id = f"{name}-0"
        self.closed = ""
        """Why it is no longer a worker; empty while it is."""
        self.keep_alive = False
        """Stays when the crawl is drained, for what is pushed to it."""
        self.stopping = False
        self.given_up = False
        """The time to finish what runs is over."""
        self.call: Call | None = None
        self.joining: JoinRequest | None = replace(join, worker=self.id)
        self.first_join = join
        self.token, self.generation, self.epoch = "", 0, join.epoch
        self.batch = self.stamp = 0
        self.summary = Summary()
        self.held: list[Page] = []
        self.stale: list[Page] = []
        """Pages that run and were lost to a rejoin."""
        self.outbox: list[Item] = []
        self.parked: list[Item] = []
        self.start: Start | None = None
        self.known: set[bytes] = set()
        """Fingerprints that need not be sent: the server called them seen."""
        self.known_version: int | None = None

    # --- what the crawl does with it -------------------------------------------------

    @property
    def buffer(self) -> list[Page]:
        """What was not started, best first."""
        return [page for page in self.held if not page.started]

    @property
    def leaving(self) -> bool:
        """The sign-off is on its way."""
        request = self.call.request if self.call else None
        return isinstance(request, ExchangeRequest) and request.leaving

    def start_page(self, now: int) -> Page | None:
        """The next request to run; None if there is none, or none to be run now."""
        silent = self.call is not None and now - self.call.since >= self.lease_ms
        if self.closed or self.stopping or self.leaving or silent or not self.buffer:
            return None
        page = self.buffer[0]
        page.started = True
        return page

    def add(self, store: Store, page: Page | None = None) -> None:
        """A new request, made by *page*, by ``start()``, or outside of both."""
        if store.fingerprint in self.known and not store.seed:
            return
        if page is not None and not page.stale:
            store = store._replace(page=page.id)
        else:
            page = None
        self.outbox.append(Item(store, page))

    def add_start(self, store: Store) -> None:
        """The next request of ``start()``."""
        assert self.start is not None
        self.start.given += 1
        self.add(store._replace(seed_token=self.start.token))

    def end_start(self, error: str = "") -> None:
        """``start()`` ended, or raised *error*."""
        assert self.start is not None
        token = self.start.token
        self.start.end = SeedFailed(token, error) if error else Seeded(token)

    def end_page(self, page: Page, end: Operation) -> None:
        """A page ended, after all it made was added."""
        page.ended = True
        if page.stale:
            self.stale.remove(page)
        else:
            self._end(page, end)

    def ack(self, page: Page) -> None:
        self.end_page(page, Ack(page.id, page.batch))

    def stop(self) -> None:
        """Start nothing more, hand back what was not started, and sign off."""
        self.stopping = True
        self._abandon_start()
        for page in self.buffer:
            page.started = page.ended = True
            self._end(page, Release(page.id, page.batch))

    def _end(self, page: Page, end: Operation) -> None:
        self.outbox.append(Item(end, page))

    def _abandon_start(self) -> None:
        """Whoever gets the seeding token runs ``start()`` from the beginning."""
        self.start = None
        self.outbox = [item for item in self.outbox if not _is_seed(item)]
        self.parked = [item for item in self.parked if not _is_seed(item)]

    def unconfirmed(self) -> list[bytes]:
        """Payloads that may have to be run, or stored, once more if it falls away.

        What runs or ran without a confirmed end, and unfiltered requests on their way.
        """
        pages = [page.payload for page in self.held if page.started]
        items = [*(self.call.items if self.call else ()), *self.outbox, *self.parked]
        return pages + [
            item.operation.payload
            for item in items
            if isinstance(item.operation, Store) and not item.operation.fingerprint
        ]

    # --- what it sends ---------------------------------------------------------------

    def send(self, now: int) -> JoinRequest | ExchangeRequest:
        """The call that is to be sent: the same one until it is answered."""
        if self.call is None and self.joining is not None:
            self.call = Call(self.joining, now)
        elif self.call is None:
            items = self._freeze()
            self.call = Call(self._exchange(items), now, items)
        return self.call.request

    def _freeze(self) -> list[Item]:
        """Take the next operations in their order; one parked request tries again."""
        retry = self.parked and not self.given_up
        items = [self.parked.pop(0)] if retry else []
        rest: list[Item] = []
        for item in self.outbox:
            if len(items) >= self.limit:
                rest.append(item)
            elif item.page is not None and self._must_wait(item, item.page):
                item.page.end = item
            else:
                items.append(item)
        self.outbox = rest
        return [*items, *self._seeding_done(items)]

    def _must_wait(self, item: Item, page: Page) -> bool:
        return page.refused > 0 and _ends_page(item)

    def _seeding_done(self, items: Sequence[Item]) -> list[Item]:
        if self.start is None or self.start.end is None:
            return []
        unsent = [*items, *self.outbox, *self.parked]
        return [] if any(map(_is_seed, unsent)) else [Item(self.start.end)]

    def _exchange(self, items: list[Item]) -> ExchangeRequest:
        leaving = self._may_leave(items)
        return ExchangeRequest(
            worker=self.id,
            token=self.token,
            batch=self.batch + 1,
            last_stamp=self.stamp,
            epoch=self.epoch,
            operations=tuple(item.operation for item in items),
            want=0 if self.stopping or leaving else self._want(),
            busy=self._is_busy(items),
            idle=self._is_idle(items),
            seeder=not self.stopping and not leaving,
            leaving=leaving,
            ends=leaving and not self.stopping,
        )

    def _want(self) -> int:
        if len(self.parked) >= self.bound:
            return 0
        return max(0, self.prefetch - len(self.buffer))

    def _is_busy(self, items: list[Item]) -> bool:
        """Whether there may be work that no lease will stand for after this batch.

        What no page stands for may also be refused, and so counts until it is answered.
        """
        loose = any(_is_store(item) and item.page is None for item in items)
        return bool(loose or self.outbox or self.parked or self.stale or self.start)

    def _is_idle(self, items: list[Item]) -> bool:
        """Whether nothing runs, or is held, that a suspect could take down with it."""
        ending = [item.page for item in items if _ends_page(item)]
        return not self.stale and all(page in ending for page in self.held)

    def _may_leave(self, items: list[Item]) -> bool:
        if self.given_up:
            return not items and not self.outbox
        if items or self.outbox or self.parked or self.held or self.stale:
            return False
        return self.stopping or (self.summary.drained and not self.keep_alive)

    def _obey(self) -> None:
        """Leave a crawl that drains."""
        if self.summary.status is CrawlStatus.DRAINING and not self.stopping:
            self.stop()

    # --- what it is told -------------------------------------------------------------

    def receive(self, reply: JoinReply | ExchangeReply) -> None:
        """The answer to what was sent last."""
        assert self.call is not None
        call, self.call = self.call, None
        if isinstance(reply, JoinReply):
            self._receive_join(reply)
        elif reply.status is Status.EPOCH:
            assert isinstance(call.request, ExchangeRequest)
            self.epoch = reply.summary.epoch
            self.call = replace(call, request=replace(call.request, epoch=self.epoch))
        elif isinstance(call.request, ExchangeRequest) and call.request.leaving:
            self.closed = "signed off"  # also if the server knew it no more
        elif reply.status is Status.OK:
            self._receive_exchange(reply, call.items)
        else:
            self._rejoin(call.items)

    def _receive_join(self, reply: JoinReply) -> None:
        assert self.joining is not None
        self.summary, self.epoch = reply.summary, reply.summary.epoch
        if reply.status is JoinStatus.EPOCH:
            self.joining = replace(self.joining, epoch=self.epoch)
        elif reply.status in ENTERED:
            self.id, self.joining = self.joining.worker, None
            self.token, self.generation = reply.token, reply.generation
            self.batch, self.stamp = 0, reply.stamp
            self._follow_token()
            self._obey()
        else:
            self.closed = reply.status.value

    def _receive_exchange(self, reply: ExchangeReply, items: list[Item]) -> None:
        self.batch, self.stamp = self.batch + 1, reply.stamp
        self.summary, self.epoch = reply.summary, reply.summary.epoch
        is_of_now = self.known_version == reply.summary.seen_version
        if not is_of_now:
            self._know_nothing()
            self.known_version = reply.summary.seen_version
        for item, answer in zip(items, reply.answers, strict=True):
            if is_of_now:
                self._remember(item.operation, answer)
            self._answered(item, answer)
        for popped in reply.popped:
            self._receive_page(popped)
        self._follow_token()
        self._obey()

    def _follow_token(self) -> None:
        token = self.summary.seed_token
        if self.start is not None and self.start.token != token:
            self._abandon_start()
        if self.start is None and token and not self.stopping:
            self.start = Start(token)

    def _know_nothing(self) -> None:
        self.known, self.known_version = set(), None

    def _remember(self, operation: Operation, answer: Answer) -> None:
        if (
            isinstance(operation, Store)
            and operation.fingerprint
            and not (operation.seed or operation.revisit_ms)
            and answer in (Answer.STORED, Answer.DUPLICATE)
        ):
            self.known.add(operation.fingerprint)

    def _answered(self, item: Item, answer: Answer) -> None:
        page = item.page
        if answer is Answer.REFUSED:
            self._park(item)
        elif answer is Answer.WITHHELD:
            assert page is not None
            page.end = item
        elif page is not None and _ends_page(item):
            self.held.remove(page)
        elif page is not None and item.parked:
            page.refused -= 1
        if page is not None and page.end is not None and not page.refused:
            self.outbox.append(page.end)
            page.end = None

    def _park(self, item: Item) -> None:
        """Out of the order, so that other pages go on; its own page has to wait."""
        if item.page is not None and not item.parked:
            item.page.refused += 1
        item.parked = True
        self.parked.append(item)

    def _receive_page(self, popped: Popped) -> None:
        page = Page(popped.id, self.batch, Entry.decode(popped.entry).payload)
        self.held.append(page)
        if self.stopping:
            page.started = page.ended = True
            self._end(page, Release(page.id, page.batch))

    def _rejoin(self, frozen: list[Item]) -> None:
        """The one way back: a new identity, and nothing kept but new requests."""
        self._know_nothing()
        self._abandon_start()
        unsent = [*frozen, *self.parked, *self.outbox]
        self.parked, self.outbox = [], []
        for item in unsent:
            if isinstance(item.operation, Store) and not _is_seed(item):
                self.add(item.operation._replace(page=""))
        for page in self.held:
            page.stale = True
            if page.started and not page.ended:
                self.stale.append(page)
        self.held = []
        self.joining = replace(
            self.first_join,
            worker=self._new_id(),
            token=self.token,
            generation=self.generation,
            previous=self.id,
            epoch=self.epoch,
        )

    def _new_id(self) -> str:
        self.life += 1
        return f"{self.name}-{self.life}"


def _is_store(item: Item) -> bool:
    return isinstance(item.operation, Store)


def _is_seed(item: Item) -> bool:
    return isinstance(item.operation, Store) and bool(item.operation.seed)


def _ends_page(item: Item) -> bool:
    return isinstance(item.operation, PageEnd)
