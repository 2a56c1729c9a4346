"""Who and what is in a schedule: worker processes, their pages and their calls."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from scrapy_redis_state.store.messages import (
    ExchangeReply,
    ExchangeRequest,
    JoinReply,
    JoinRequest,
    Operation,
    Store,
)
from tests.model.graph import Visit, random_graph
from tests.model.kinds import HARMLESS, KINDS
from tests.model.server import ModelServer
from tests.model.worker import Item, ModelWorker, Page

OUTSIDE = 1000
"""Pages from here on are asked for by nobody's page."""

Request: TypeAlias = JoinRequest | ExchangeRequest
Reply: TypeAlias = JoinReply | ExchangeReply


@dataclass(eq=False)
class Run:
    """A page being run."""

    page: Page
    visit: Visit
    children: list[Store]
    end: Operation | None
    """None: it kills its worker."""
    ended_at: int | None = None
    """Step in which it ended."""


@dataclass
class Air:
    """A call on its way to the server, or its reply on the way back."""

    request: Request
    reply: Reply | None = None
    replied_at: int = 0
    """Step in which the server made the reply."""


@dataclass(eq=False)
class Agent:
    """A worker process."""

    worker: ModelWorker
    unknown: set[int]
    """Pages that its code cannot run."""
    runs: list[Run] = field(default_factory=list)
    air: Air | None = None
    executed: ExchangeReply | None = None
    """What the server answered to the batch that the worker waits for, if it did."""
    loose: list[Item] = field(default_factory=list)
    """New requests of no page that it had when it wrote the call on its way."""
    told: list[Item] = field(default_factory=list)
    """Those that it had when it wrote the last call that the server ran."""
    gone: bool = False
    silent_until: int = 0
    sent_at: int = 0


@dataclass(frozen=True)
class Snapshot:
    server: ModelServer
    step: int
    unconfirmed: list[bytes]
    """What its workers had not confirmed then."""


class Scene:
    """The state of a schedule.

    :param kind: what goes wrong in it, a key of ``KINDS``
    :param seed: decides everything that happens
    """

    def __init__(
        self,
        kind: str,
        seed: int,
        server: type[ModelServer] = ModelServer,
        worker: type[ModelWorker] = ModelWorker,
    ) -> None:
        self.kind = kind
        self.rng = random.Random(f"{kind} {seed}")
        self.worker_class = worker
        self.server = server(now=1_000_000)
        self._choose_crawl()
        self.time = self.server.now
        """Time everywhere but on the server, in ms."""
        self.skew = self.most_skew = self.calm_until = 0
        self.step_number = 0
        self.agents: list[Agent] = []
        self.copies: list[Request] = []
        """Calls that the network will bring to the server once more."""
        self.recent: list[Request] = []
        """The last calls that were sent."""
        self.snapshots: list[Snapshot] = []
        self.rolled_back_at = 0
        self.healing = False
        """Nothing goes wrong any more."""
        self.runs: list[Run] = []
        self.allowed: Counter[int] = Counter()
        """Repeats of each page that the faults so far excuse."""
        self.failures = dict(self.graph.failures)
        """How often the callback of each page will raise."""
        self.completed: set[int] = set()
        self.enqueued: Counter[int] = Counter()
        self.outside = 0
        self.promised: dict[int, int] = {}
        """Outside requests that were answered as stored, and the step of that."""
        self.checked: tuple[object, ...] = ()

    def _choose_crawl(self) -> None:
        killers, talk = self.kind == "killers", self.kind == "talk"
        size = 3 if talk else self.rng.randint(6, 20)
        self.graph = random_graph(self.rng, size, killers=killers)
        self.faults = KINDS[self.kind].choose(self.rng)
        self.exact = not killers and self.faults.keys() <= set(HARMLESS)
        """Nothing excuses a repeated page."""
        self.outside_chance = 0.03 if talk else self.rng.choice((0.0, 0.05, 0.3))
        self.order = self.rng.choice(("fifo", "lifo"))
        self.max_deliveries = self.rng.randint(2, 3) if killers else 1000

    def _present(self) -> list[Agent]:
        return [agent for agent in self.agents if not agent.gone]
