"""A crawl that something is done to, and what is left of it then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.codec import describe_payload
from tests.crawl.crawls import Crawls, total
from tests.crawl.project.settings import CONCURRENT_REQUESTS
from tests.faults.graph import path_in
from tests.processes import Program, wait_until

if TYPE_CHECKING:
    import redis

    from tests.crawl.crawls import DeadLetter
    from tests.faults.faketime import Clock
    from tests.faults.graph import Graph
    from tests.processes import Programs
    from tests.servers import Server

LEASE_SECS, REAP_SECS = 2.0, 0.5
"""As in the settings of the tests' project."""
RECOVERY_SECS = LEASE_SECS + REAP_SECS + 1
"""Until work of a dead worker is back, at the latest."""
JUMP_PROOF_SECS = 6.5
"""A lease longer than what one jump of the server's clock, or an outage, may advance
the crawl clock by (5 s)."""

STEADY = 5
"""So often in a row a stopped worker's leases are the same: the server is done."""


@dataclass(frozen=True)
class Held:
    """What a worker held when it was stopped."""

    worker: Program
    pages: Mapping[str, str]
    """Paths, by request id."""
    since: float
    """Server time, in seconds."""

    @property
    def paths(self) -> set[str]:
        return set(self.pages.values())


@dataclass(frozen=True)
class Toll:
    """Items written, compared with the site's own list of pages."""

    attempted: int
    """Pages asked for, repeats included."""
    completed: int
    """Pages whose item is written."""
    lost: frozenset[str]
    repeated: Mapping[str, int]
    """Pages with more items than one, and how many more."""
    dead: Mapping[str, DeadLetter]
    """Dead letters, by path."""
    problems: tuple[str, ...]
    """What fsck found."""

    @property
    def repeats(self) -> int:
        return sum(self.repeated.values())

    @property
    def is_clean(self) -> bool:
        """Everything there once, and nothing else."""
        return not (self.lost or self.repeated or self.dead or self.problems)


class Trial(Crawls):
    """Workers of the ``graph`` spider on one server."""

    crawl = "graph"

    def __init__(self, programs: Programs, server: Server, bot: str) -> None:
        super().__init__(programs, server, bot)
        self.marks = programs.directory / "marks"
        self.marks.mkdir(exist_ok=True)

    def worker(
        self,
        site: Graph,
        *,
        url: str = "",
        clock: Clock | None = None,
        programs: Programs | None = None,
        **settings: object,
    ) -> Program:
        """Start a worker.

        ``url`` leads to the server by another way; ``programs`` starts it elsewhere.
        """
        env = dict(clock.environment) if clock else {}
        ours = {"MARKS": self.marks} | ({"REDIS_STATE_URL": url} if url else {})
        crawls = Crawls(programs or self.programs, self.server, self.bot)
        return crawls.start(
            self.crawl,
            site=site.url,
            settings=ours | settings,
            env=env | {"SCRAPY_SETTINGS_MODULE": "tests.faults.settings"},
        )

    def workers(
        self, site: Graph, *each: Mapping[str, Any], **common: Any
    ) -> list[Program]:
        """Start several, two by default, and return when all are busy downloading.

        Most of the site is left to do then. ``each`` has what is one worker's own.
        """
        gate = site.hold_all()
        started = [self.worker(site, **common, **own) for own in each or ({}, {})]
        downloads = common.get("CONCURRENT_REQUESTS", CONCURRENT_REQUESTS)
        wait_until(
            lambda: len(gate.waiting) == downloads * len(started),
            40,
            lambda: f"{len(started)} workers at {downloads} downloads each: {gate}",
        )
        gate.open()
        return started

    def let_start_go_on(self) -> None:
        """End what ``STALL_AFTER`` began."""
        (self.marks / "go on").touch()

    # --- what a worker holds ---------------------------------------------------------

    def key(self, name: str) -> str:
        """Name of a key of the crawl."""
        return f"{name}:{{{self.bot}:{self.crawl}}}"

    def now(self, client: redis.Redis | None = None) -> float:
        """Server time, in seconds."""
        seconds, micros = (client or self.client).time()
        return float(seconds + micros / 1e6)

    def identities(self, worker: Program) -> set[bytes]:
        """Under which names a process has been a worker of the crawl."""
        infos: Any = self.client.hgetall(self.key("replies"))
        return {
            name.removesuffix(b":info")
            for name, value in infos.items()
            if name.endswith(b":info") and json.loads(value)["pid"] == worker.pid
        }

    def leased_to(self, names: set[bytes]) -> set[bytes]:
        """Ids of requests leased to any of some names."""
        leases: Any = self.client.hgetall(self.key("leases"))
        return {
            id for id, lease in leases.items() if lease.rpartition(b":")[0] in names
        }

    def holds(self, worker: Program) -> int:
        """How many requests are leased to a worker."""
        return len(self.leased_to(self.identities(worker)))

    def beats(self) -> dict[bytes, float]:
        """When each worker was last heard, on the crawl clock."""
        beats: Any = self.client.zrange(self.key("workers"), 0, -1, withscores=True)
        return dict(beats)

    def is_seeding(self, worker: Program) -> bool:
        """Whether a worker runs ``start()`` for the crawl."""
        holder: Any = self.client.hget(self.key("crawl"), "seed_worker")
        return holder in self.identities(worker)

    def stop(self, worker: Program) -> Held:
        """SIGSTOP, and what the worker holds when the server is done with it."""
        worker.pause()
        since = self.now()
        names = self.identities(worker)
        seen = [self.leased_to(names) for _ in range(STEADY)]
        while any(ids != seen[-1] for ids in seen[-STEADY:]):
            seen.append(self.leased_to(names))
        pages = {id.decode(): self.path(id) for id in seen[-1]}
        return Held(worker, pages, since)

    def kill(self, worker: Program) -> Held:
        """Stop a worker, count, and kill it."""
        held = self.stop(worker)
        worker.kill()
        return held

    def path(self, id: bytes) -> str:
        """Path of the URL of a request."""
        entry: Any = self.client.hget(self.key("requests"), id)
        payload = entry.split(b";", 3)[3]
        return path_in(describe_payload(payload)["url"])

    def recovery(self, held: Held, timeout: float = 30) -> float:
        """Wait until none of it is leased to a dead worker; seconds of server time."""
        names = self.identities(held.worker)
        wait_until(
            lambda: not self.leased_to(names),
            timeout,
            f"the work of pid {held.worker.pid} is back",
        )
        return self.now() - held.since

    # --- what happens ----------------------------------------------------------------

    def wait_for_pages(self, count: int, timeout: float = 40) -> None:
        """Wait until so many pages are done."""
        wait_until(lambda: self.done >= count, timeout, f"{count} pages done")

    @property
    def done(self) -> int:
        """How many pages were acknowledged."""
        return int(self.client.hget(self.key("crawl"), "done") or 0)

    @property
    def stored(self) -> int:
        """How many requests the server keeps."""
        return int(self.client.hlen(self.key("requests")))

    def toll(self, site: Graph, *, skip_dead: bool = False) -> Toll:
        """Compare what was written with what there is.

        ``skip_dead`` is for dead letters that are no requests.
        """
        written = Counter(
            {path: n for path, n in self.values("page").items() if path in site.paths}
        )
        return Toll(
            attempted=sum(site.visits[path] for path in site.paths),
            completed=len(written),
            lost=site.paths - written.keys(),
            repeated={path: n - 1 for path, n in written.items() if n > 1},
            dead={} if skip_dead else self.dead(self.crawl),
            problems=tuple(self.problems()),
        )


def redelivered(*workers: Program) -> int:
    """How many requests workers were given that another had lost or failed."""
    return total("redis_state/redelivered", workers)


def taken_back(*workers: Program) -> int:
    """How many requests workers say they took from dead ones."""
    lines = [
        line
        for worker in workers
        for line in worker.output.splitlines()
        if "Took back the work of dead workers: " in line
    ]
    return sum(int(line.rpartition(": ")[2].split()[0]) for line in lines)


def says(worker: Program, text: str) -> int:
    """In how many lines of its log a worker says something."""
    return Counter(text in line for line in worker.output.splitlines())[True]
