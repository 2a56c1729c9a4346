"""What the server keeps of one crawl, one field for each key of the keyspace.

Times are milliseconds: of the crawl clock in ``inflight`` and ``Record.beat``, of the
server everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scrapy_redis_state.store.messages import (
    CrawlStatus,
    ExchangeReply,
    JoinReply,
    Seeding,
)

EARLIER_EPOCHS = 2
"""Epochs before the current one in which a page counts as seen, with revisits."""

OWN_TIME = 0
"""In place of an epoch: pages that are remembered for a time of their own."""


@dataclass
class Entry:
    """A request that is not done: its head and its encoded payload.

    On the wire it is ``b"<priority>;<deliveries>;<workers>;" + payload``, where
    *workers* are the ids of those that handed it back, separated by commas. Worker ids
    hold neither of the two separators; the payload may hold anything.
    """

    payload: bytes
    priority: int = 0
    deliveries: int = 0
    handed_back: list[str] = field(default_factory=list)

    def encode(self) -> bytes:
        workers = ",".join(self.handed_back)
        return f"{self.priority};{self.deliveries};{workers};".encode() + self.payload

    @classmethod
    def decode(cls, entry: bytes) -> Entry:
        priority, deliveries, workers, payload = entry.split(b";", 3)
        names = workers.decode().split(",") if workers else []
        return cls(payload, int(priority), int(deliveries), names)


@dataclass(frozen=True)
class Lease:
    """Who holds a request in flight, and the batch that popped it."""

    worker: str
    batch: int


@dataclass(frozen=True)
class DeadLetter:
    payload: bytes
    reason: str
    priority: int
    deliveries: int
    worker: str
    """The last worker that had it; empty if none ever did."""


@dataclass
class Record:
    """A worker between its join and its sign-off."""

    joined: JoinReply
    beat: int
    batch: int = 0
    stamp: int = 0
    """Stamp of the last reply: the join's, then that of ``batch``."""
    reply: ExchangeReply | None = None
    """The reply to ``batch``; None while the batch runs, or if it never ended."""
    busy: bool = True
    """The worker has work that the server cannot see: assumed until it tells.

    One that rejoins may have new requests that it could not send yet.
    """
    done: int = 0
    """Pages done since the join."""


@dataclass
class Crawl:
    """One generation of a crawl, and what outlives it."""

    token: str
    generation: int = 1
    identity: dict[str, str] = field(default_factory=dict)
    tunable: dict[str, str] = field(default_factory=dict)
    given: bool = False
    """A worker said that the crawl id was chosen by the user."""
    keep_alive: bool = False
    """Its workers stay when all is done, and it is not over then."""

    status: CrawlStatus = CrawlStatus.RUNNING
    finished_at: int = 0
    expires_at: int = 0
    """When a finished crawl is forgotten; 0: never."""
    most_workers: int = 0
    """How many were live at the same time."""
    done: int = 0

    sequence: int = 0
    """Number of the last request id; never restarts."""
    epoch: int = 1
    stamp: int = 0
    clock: int = 0
    """The crawl clock."""
    last_time: int = 0
    """Server time of the last call, when the crawl clock was last advanced."""

    seeding: Seeding = Seeding.NONE
    seed_token: int = 0
    seed_holder: str = ""
    seed_failures: int = 0
    seeds: set[bytes] = field(default_factory=set)

    seen: set[bytes] = field(default_factory=set)
    """Of the current epoch."""
    seen_earlier: list[set[bytes]] = field(default_factory=list)
    """With revisits: of the epochs before that still count, the latest first."""
    epoch_began: int = 0
    seen_version: int = 1
    """Raised whenever pages that were seen may be new again."""
    sites: dict[str, dict[int, int]] = field(default_factory=dict)
    """Site to the number of its pages that are remembered, by epoch.

    Of those with a time of their own in place of the epoch :data:`OWN_TIME`.
    """
    revisits: dict[bytes, int] = field(default_factory=dict)
    """Fingerprint to the time until which it is a duplicate."""
    requests: dict[str, Entry] = field(default_factory=dict)
    frontier: dict[str, int] = field(default_factory=dict)
    """Request id to priority."""
    delayed: dict[str, int] = field(default_factory=dict)
    """Request id to the time before which it is not handed out."""
    suspects: dict[str, int] = field(default_factory=dict)
    """Request id to priority."""
    inflight: dict[str, int] = field(default_factory=dict)
    """Request id to the time when it is looked at again."""
    leases: dict[str, Lease] = field(default_factory=dict)
    suspect: str = ""
    """The suspect in flight; there is one at most."""
    suspect_taker: str = ""
    """The worker that takes the suspects, one after the other."""
    dead: dict[str, int] = field(default_factory=dict)
    deadinfo: dict[str, DeadLetter] = field(default_factory=dict)
    workers: dict[str, Record] = field(default_factory=dict)

    @property
    def lease_ms(self) -> int:
        return int(self.tunable.get("lease_ms", "60000"))

    @property
    def max_deliveries(self) -> int:
        return int(self.tunable.get("max_deliveries", "3"))

    @property
    def finished_ttl_ms(self) -> int:
        return int(self.tunable.get("finished_ttl_ms", "604800000"))

    @property
    def max_per_site(self) -> int:
        return int(self.tunable.get("max_per_site", "0"))

    @property
    def forgets(self) -> bool:
        """Pages are forgotten after some time."""
        return self.identity.get("seen", "exact").endswith("+revisits")

    @property
    def epoch_ms(self) -> int:
        """How long an epoch of the seen set lasts; 0: as long as the crawl."""
        if not self.forgets:
            return 0
        return int(self.tunable.get("revisit_ms", "0")) // EARLIER_EPOCHS

    def is_seen(self, fingerprint: bytes) -> bool:
        return any(fingerprint in seen for seen in (self.seen, *self.seen_earlier))

    def pages_of(self, site: str) -> dict[int, int]:
        """How many pages of a site are remembered, by epoch."""
        oldest = self.epoch - len(self.seen_earlier)
        return {
            epoch: count
            for epoch, count in self.sites.get(site, {}).items()
            if epoch == OWN_TIME or epoch >= oldest
        }

    def count_page(self, site: str, epoch: int, added: int) -> None:
        """A page of a site is remembered; or, with -1, it is no longer."""
        if not site or not self.max_per_site:
            return
        counts = self.pages_of(site)
        counts[epoch] = counts.get(epoch, 0) + added
        self.sites[site] = {one: count for one, count in counts.items() if count > 0}
        if not self.sites[site]:
            del self.sites[site]

    def new_id(self) -> str:
        """The next request id: byte order is the order among equal priorities.

        The highest id is handed out first, so ids fall for FIFO and rise for LIFO.
        """
        self.sequence += 1
        lifo = self.identity.get("order", "fifo") == "lifo"
        return f"{self.sequence if lifo else 99999999999999 - self.sequence:014d}"

    def live(self, worker: str) -> bool:
        """Whether this worker has beaten within one lease, on the crawl clock."""
        record = self.workers.get(worker)
        return record is not None and record.beat + self.lease_ms > self.clock

    def live_workers(self) -> list[str]:
        return [worker for worker in self.workers if self.live(worker)]

    def leased_to(self, worker: str) -> list[str]:
        """The ids that this worker holds."""
        return [id for id, lease in self.leases.items() if lease.worker == worker]

    def is_empty(self) -> bool:
        """Nothing left to do, whoever may still be about to make something to do."""
        places = (self.frontier, self.delayed, self.suspects, self.inflight)
        return (
            not any(places)
            and self.seeding is not Seeding.OPEN
            and self.status not in (CrawlStatus.PAUSED, CrawlStatus.DRAINING)
        )

    def is_complete(self) -> bool:
        """Empty for good: what is fed from outside alone is empty only for now."""
        return self.is_empty() and self.seeding is not Seeding.NONE
