"""What a worker and the store say to each other.

Plain values without behaviour: the operations a worker sends, the answers it gets
for each, and the three conversations (*join*, *exchange*, *reap*). The Lua scripts
and the reference model of the tests speak exactly these.

Times are milliseconds. "Crawl clock" and "server time" are explained in
``docs/explanation/protocol``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

SCHEMA_VERSION = "1"
"""Version of the keys and of the values in them; a crawl of another one is refused."""


class Store(NamedTuple):
    """Put a new request into the frontier, unless it is a duplicate."""

    payload: bytes
    priority: int = 0
    fingerprint: bytes = b""
    """Tested against and added to the seen set; empty: the request is not filtered."""
    page: str = ""
    """Request id of the page that made it; empty outside a page."""
    seed: bytes = b""
    """Identity of a start request (fingerprint and occurrence); empty for any other."""
    seed_token: int = 0
    """The seeding token under which a start request was made."""
    site: str = ""
    """Site that it counts for, where the number of pages of a site is limited."""
    revisit_ms: int = 0
    """How long equal requests are duplicates of it; 0: as the seen set has it."""


class StoreDead(NamedTuple):
    """Put a new request straight into the dead letters: no worker could run it."""

    payload: bytes
    reason: str
    priority: int = 0
    page: str = ""


class Ack(NamedTuple):
    """The page is done: forget its request."""

    id: str
    batch: int
    seen: tuple[bytes, ...] = ()
    """Fingerprints of requests that ran as a part of it, to be marked with it."""


class Fail(NamedTuple):
    """The page failed: count a delivery and try it again later, or bury it."""

    id: str
    batch: int
    delay_ms: int
    reason: str


class Release(NamedTuple):
    """Hand a request back as it was; no delivery is counted."""

    id: str
    batch: int


class Delay(NamedTuple):
    """Hand a request back for later; no delivery is counted."""

    id: str
    batch: int
    delay_ms: int


class HandBack(NamedTuple):
    """Hand back a request this worker cannot run, for workers with other code.

    No delivery is counted. Buried when every live worker has handed it back.
    """

    id: str
    batch: int
    delay_ms: int
    reason: str


class Bury(NamedTuple):
    """Move the page's request to the dead letters."""

    id: str
    batch: int
    reason: str


class Seeded(NamedTuple):
    """``start()`` ended and all it made is stored."""

    seed_token: int
    seen: tuple[bytes, ...] = ()
    """Fingerprints of requests that ran as a part of it, to be marked with it."""


class SeedFailed(NamedTuple):
    """``start()`` raised; the token is given back so that it is tried again."""

    seed_token: int
    reason: str


class Claim(NamedTuple):
    """Test-and-set a fingerprint and nothing else."""

    fingerprint: bytes


class Check(NamedTuple):
    """Ask whether a fingerprint was seen; changes nothing."""

    fingerprint: bytes


class Forget(NamedTuple):
    """Have a page count as new again. Refused where the seen set cannot forget."""

    fingerprint: bytes
    as_it_is: bytes
    """The same, for requests with a time of their own."""
    site: str = ""
    """Site that it counted for, where the number of pages of a site is limited."""


PageEnd: TypeAlias = Ack | Fail | Release | Delay | HandBack | Bury
"""What ends a lease."""

Operation: TypeAlias = (
    Store
    | StoreDead
    | Ack
    | Fail
    | Release
    | Delay
    | HandBack
    | Bury
    | Seeded
    | SeedFailed
    | Claim
    | Check
    | Forget
)


class Answer(str, Enum):
    """What became of one operation; one character each on the wire."""

    STORED = "s"
    """A request or a fingerprint that was new (of a *Check*: that is new)."""
    DUPLICATE = "d"
    """A request or a fingerprint that was seen before."""
    REFUSED = "r"
    """No room on the server: nothing was changed, send it again later."""
    LIMITED = "l"
    """A request to a site of which enough pages were stored: nothing was changed."""
    DONE = "o"
    """A lease was ended, the seeding state changed, or a page forgotten, as asked."""
    STALE = "x"
    """Not this worker's lease or token any more, or not a page that was seen: nothing
    was changed."""
    WITHHELD = "h"
    """The end (but a release or a delay) of a page that had a request refused in this
    batch: nothing was changed."""


class Status(str, Enum):
    """How an exchange went as a whole."""

    OK = "ok"
    REJOIN = "rejoin"
    """The server does not know this worker, or not as the worker knows itself."""
    OLD = "old"
    """A lower batch number than the last: no effect, its answer was given long ago."""
    BROKEN = "broken"
    """The batch began and never ended: the script failed half-way."""
    EPOCH = "epoch"
    """The seen set named is not the current one: no effect, send it again."""


class JoinStatus(str, Enum):
    """How a join went."""

    CREATED = "created"
    """A new crawl, or a new generation of one that had finished."""
    JOINED = "joined"
    """A crawl with other live workers."""
    RESUMED = "resumed"
    """An unfinished crawl without live workers."""
    FINISHED = "finished"
    """The crawl is over and this worker has nothing to do."""
    MISMATCH = "mismatch"
    """Something that must agree does not."""
    WRONG_TYPE = "wrong_type"
    """A key holds another type than ours."""
    SUPERSEDED = "superseded"
    """A rejoin found a newer generation: the crawl was started over elsewhere."""
    LOST = "lost"
    """A rejoin did not find its crawl: the server lost its data."""
    EPOCH = "epoch"
    """The seen set named is not the current one: send it again."""


class Seeding(str, Enum):
    """State of the start requests of a generation."""

    NONE = ""
    """No spider has joined yet."""
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    """``start()`` raised as often as a page may be delivered."""


class CrawlStatus(str, Enum):
    RUNNING = "running"
    PAUSED = "paused"
    """Nothing is handed out; workers stay."""
    DRAINING = "draining"
    """Nothing is handed out, and workers end."""
    FINISHED = "finished"
    IMPORTING = "importing"
    """Only a part of it is there; nobody may use it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The crawl as a whole, at the end of one call."""

    pending: int = 0
    best_priority: int | None = None
    """Highest priority in the frontier; None when it is empty."""
    in_flight: int = 0
    delayed: int = 0
    suspects: int = 0
    dead: int = 0
    done: int = 0
    """Pages acked in this generation."""
    seeding: Seeding = Seeding.NONE
    seed_token: int = 0
    """The current seeding token when the caller holds it, else 0."""
    workers: int = 0
    """Live workers."""
    status: CrawlStatus = CrawlStatus.RUNNING
    epoch: int = 0
    drained: bool = False
    """Nothing left to do and nobody who could still make something to do."""
    seen: int = 0
    """Fingerprints in the seen set of this epoch."""
    seen_version: int = 0
    """Another number than before: a page that was a duplicate may be new by now."""


class Popped(NamedTuple):
    """A request leased to this worker; ``entry`` is its head and payload."""

    id: str
    entry: bytes


FIRST_POSITION = "1:0"
"""Where the look for half entries begins."""


class Reaped(NamedTuple):
    """What a call did about workers that died and entries that were damaged."""

    requeued: int = 0
    """Requests taken from dead workers and put back."""
    buried: int = 0
    """Requests that their workers died of, now dead letters."""
    repaired: int = 0
    """Half entries: ids without a request dropped, requests without a place put back,
    dead letters completed."""


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    """One batch of one worker. The same number must always carry the same content."""

    worker: str
    token: str
    """Token of the generation, from the join."""
    batch: int
    """1 for the first exchange after a join, then one higher each."""
    last_stamp: int
    """``stamp`` of the last reply this worker read (the join's, before batch 1)."""
    epoch: int
    """Epoch of the seen set, from the last summary."""
    operations: tuple[Operation, ...] = ()
    want: int = 0
    """How many requests to pop at most."""
    busy: bool = False
    """The worker has work the server cannot see: the crawl is not drained."""
    idle: bool = False
    """After these operations the worker holds no lease: it may be given a suspect."""
    seeder: bool = False
    """The worker can run ``start()`` and takes the seeding token if it is free."""
    leaving: bool = False
    """Sign off: the last exchange of this worker."""
    oldest_ms: int = 0
    """For how long the worker has held the oldest lease that it keeps; 0: not known."""
    ends: bool = False
    """With ``leaving``: also a crawl that is kept alive is over, if this was the last
    worker and nothing is left to do."""


@dataclass(frozen=True, slots=True)
class ExchangeReply:
    status: Status
    stamp: int = 0
    """Server time of the exchange in µs; names this reply."""
    answers: tuple[Answer, ...] = ()
    """One per operation, in order."""
    popped: tuple[Popped, ...] = ()
    reaped: Reaped = field(default_factory=Reaped)
    """What this call mended; nothing when the batch is repeated."""
    summary: Summary = field(default_factory=Summary)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """Become a worker of a crawl, or come back as a new one (rejoin)."""

    worker: str
    """A new identity, chosen by the client, so that a join may be repeated."""
    identity: dict[str, str] = field(default_factory=dict)
    """What must always agree between all workers of a crawl, by name."""
    tunable: dict[str, str] = field(default_factory=dict)
    """What must agree while other workers live, and is replaced when none does.

    Those that the scripts know (``lease_ms``, ``revisit_ms`` ...) are numbers."""
    loose: tuple[str, ...] = ()
    """Names in ``identity`` whose difference is only reported."""
    new_token: str = ""
    """Token for the generation, should this join open one."""
    token: str = ""
    """Rejoin: token of the generation the worker was in. Empty: first join."""
    generation: int = 0
    """Rejoin: number of that generation."""
    previous: str = ""
    """Rejoin: the old identity; its record is closed and its leases handed back."""
    given: bool = False
    """The crawl id was chosen by the user: once finished, it stays finished."""
    age_ms: int = 0
    """How long ago the crawler was created."""
    seeding: Seeding = Seeding.NONE
    """What becomes of seeding that is *none*: OPEN if the spider has a ``start()``
    to be run once per crawl, DONE if every worker runs its own."""
    host: str = ""
    pid: int = 0
    keep_alive: bool = False
    """This worker stays when all is done, and the crawl is not over then."""
    epoch: int = 1
    """Epoch of the seen set as far as known; that of a new crawl at first."""
    dry_run: bool = False
    """Answer what a join would, and change nothing."""
    seeder: bool = False
    """As in an exchange: the worker takes the seeding token if it is free."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that does not agree with the crawl's."""

    name: str
    stored: str
    given: str


@dataclass(frozen=True, slots=True)
class JoinReply:
    status: JoinStatus
    token: str = ""
    generation: int = 0
    stamp: int = 0
    differences: tuple[Difference, ...] = ()
    """With MISMATCH: what must agree. Else: loose values that differ. With
    WRONG_TYPE: key, its type, the type expected."""
    summary: Summary = field(default_factory=Summary)


@dataclass(frozen=True, slots=True)
class ReapReply:
    requeued: int = 0
    buried: int = 0
    repaired: int = 0
    promoted: int = 0
    """Delayed requests whose time had come."""
    position: str = FIRST_POSITION
    """Where the next call goes on looking for half entries."""
    tidy: str = ""
    """Where :func:`.scripts.tidy` has something to do; empty: nowhere."""
    summary: Summary = field(default_factory=Summary)

    @property
    def reaped(self) -> Reaped:
        """The first three, which an exchange reports too."""
        return Reaped(self.requeued, self.buried, self.repaired)
