"""A long crawl in which workers and the server are killed again and again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import redis

from tests.crawl.crawls import close_reason
from tests.faults.graph import Graph
from tests.faults.trial import Held, Toll, Trial, redelivered, says
from tests.processes import Program, wait_until

POLL_SECS = 0.05
"""How exactly recoveries are timed."""
MOMENT_SECS = 0.3
"""A worker is hit after up to so long at work: at any point of it."""
STUCK_SECS = 120
"""The longest time without any progress."""


@dataclass(frozen=True)
class Plan:
    """What happens in a campaign; each field can be set in the environment."""

    urls: int = 100_000
    worker_kills: int = 200
    server_kills: int = 20
    stops: int = 20
    """SIGTERMs, in a campaign of their own over a quarter of the URLs."""
    workers: int = 4
    lease_secs: int = 7
    seed: int = 1

    @classmethod
    def from_environment(cls) -> Plan:
        """Read ``FAULTS_URLS``, ``FAULTS_WORKER_KILLS`` and so on."""
        names = cls.__dataclass_fields__
        given = {name: os.environ.get(f"FAULTS_{name.upper()}") for name in names}
        return cls(**{name: int(value) for name, value in given.items() if value})


@dataclass
class Losses:
    """What was held at each kill, and when it was back."""

    held: list[Held] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    """Seconds of server time, without those in which it was down."""
    waiting: dict[int, tuple[Held, set[bytes], float]] = field(default_factory=dict)
    """What is not back yet: with the names of its worker, and how long the server had
    been down before."""

    @property
    def requests(self) -> int:
        return sum(len(held.pages) for held in self.held)


class Campaign:
    """Keeps a number of workers running until the crawl is finished.

    ``outage`` is what happens to the server at times: by itself, it is killed and
    started again after up to two seconds.
    """

    def __init__(
        self,
        trial: Trial,
        site: Graph,
        plan: Plan,
        outage: Callable[[], None] | None = None,
    ) -> None:
        self.trial = trial
        self.site = site
        self.plan = plan
        self.losses = Losses()
        self.workers: list[Program] = []
        """All that were started."""
        self.stopped: list[Program] = []
        self.outages: list[float] = []
        """How long the server was away each time, in seconds."""
        self.began = time.monotonic()
        self._chance = random.Random(plan.seed)
        self._outage = outage or self._restart

    # --- the run ---------------------------------------------------------------------

    def run(self, *, kills: int = 0, server_kills: int = 0, stops: int = 0) -> None:
        """Crawl the site, with so many of each at random moments."""
        events = ["kill"] * kills + ["server"] * server_kills + ["stop"] * stops
        self._chance.shuffle(events)
        first, last = self.plan.urls // 50, self.plan.urls * 9 // 10
        moments = sorted(self._chance.sample(range(first, last), len(events)))
        for moment, event in zip(moments, events, strict=True):
            self._crawl_until(moment)
            {"kill": self._kill, "server": self._bounce, "stop": self._stop}[event]()
        self._crawl_until(self.plan.urls)
        wait_until(lambda: not self._running(), STUCK_SECS, "all workers end")
        self._watch()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def toll(self) -> Toll:
        return self.trial.toll(self.site)

    @property
    def survivors(self) -> list[Program]:
        """Workers that ended by themselves."""
        killed = {held.worker for held in self.losses.held}
        return [worker for worker in self.workers if worker not in killed]

    @property
    def rejoins(self) -> int:
        """How often a living worker lost its leases: the machine was too slow."""
        return sum(says(worker, "joins again") for worker in self.workers)

    @property
    def redelivered(self) -> int:
        return redelivered(*self.survivors)

    def endings(self, workers: Iterable[Program]) -> set[tuple[int | None, str]]:
        """Exit statuses and close reasons."""
        return {(worker.returncode, close_reason(worker)) for worker in workers}

    # --- what happens in it ----------------------------------------------------------

    def _crawl_until(self, done: int) -> None:
        best, since = -1, time.monotonic()
        while (now_done := self.trial.done) < done:
            if now_done > best:
                best, since = now_done, time.monotonic()
            assert time.monotonic() - since < STUCK_SECS, f"stuck at {best} pages"
            self._tick()

    def _tick(self) -> None:
        """What has to be done all the time."""
        self._keep_workers()
        self._watch()
        time.sleep(POLL_SECS)

    def _running(self) -> list[Program]:
        return [worker for worker in self.workers if worker.running]

    def _keep_workers(self) -> None:
        for _ in range(self.plan.workers - len(self._running())):
            worker = self.trial.worker(
                self.site,
                REDIS_STATE_CRAWL_ID=f"{self.trial.bot}:{self.trial.crawl}",  # once
                REDIS_STATE_LEASE_SECS=self.plan.lease_secs,
                REDIS_STATE_MAX_DELIVERIES=10,  # the innocent are hit again and again
                CONCURRENT_REQUESTS=16,
                CONCURRENT_REQUESTS_PER_DOMAIN=16,
            )
            self.workers.append(worker)

    def _victim(self) -> Program:
        """One of several workers that hold something: another can take its work."""
        since = time.monotonic()
        with self.site.held():  # or small crawls end while workers start
            while len(holders := self._holders()) < 2:
                assert time.monotonic() - since < STUCK_SECS, "too few are at work"
                self._tick()
        time.sleep(self._chance.uniform(0, MOMENT_SECS))
        return self._chance.choice(holders)

    def _holders(self) -> list[Program]:
        running = [worker for worker in self._running() if worker not in self.stopped]
        return [worker for worker in running if self.trial.holds(worker)]

    def _kill(self) -> None:
        held = self.trial.kill(self._victim())
        names = self.trial.identities(held.worker)
        self.losses.held.append(held)
        self.losses.waiting[held.worker.pid] = held, names, sum(self.outages)

    def _stop(self) -> None:
        worker = self._victim()
        worker.terminate()
        self.stopped.append(worker)

    def _bounce(self) -> None:
        since = time.monotonic()
        self._outage()
        wait_until(self._answers, STUCK_SECS, "the server is back")
        self.outages.append(time.monotonic() - since)

    def _restart(self) -> None:
        self.trial.server.kill()
        time.sleep(self._chance.uniform(0, 2))
        self.trial.server.start()

    def _answers(self) -> bool:
        try:
            return self.trial.now() > 0
        except redis.RedisError:
            return False

    def _watch(self) -> None:
        """Note what is back."""
        for pid, (held, names, down_before) in list(self.losses.waiting.items()):
            now = self.trial.now()
            if not self.trial.leased_to(names):
                down = sum(self.outages) - down_before
                self.losses.recoveries.append(now - held.since - down)
                del self.losses.waiting[pid]
