"""What goes wrong, as far as it is not the network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import chain

from scrapy_redis_state.store.messages import Ack, CrawlStatus, JoinRequest, Seeding
from tests.model.agents import Agent, Snapshot
from tests.model.calls import Calls
from tests.model.worker import Item, ModelWorker

LEASE_MS = 15_000
MOST_AGENTS = 8
NEVER_REACHED = 1000
"""Batches after which no schedule goes on."""


class Happenings(Calls):
    """Faults, and what else happens without anybody's doing."""

    def _disturb(self) -> None:
        if self.rng.random() < 0.02:
            self.server.reap()
            self._check_state()
        if self.rng.random() < 0.01:
            self._push()
        if "rollback" in self.faults and self.rng.random() < 0.04:
            self._take_snapshot()
        if self.copies and self.rng.random() < 0.2:
            self._call(self.copies.pop(self.rng.randrange(len(self.copies))))
        happenings: dict[str, tuple[float, Callable[[], None]]] = {
            "join": (0.01, self._join),
            "outage": (0.004, self._outage),
            "rollback": (0.006, self._roll_back),
            "full": (0.01, self._fill),
            "clock jump": (0.005, self._jump),
            "script error": (0.02, self._break_script),
            "pause": (0.01, self._pause),
            "drain": (0.005, self._drain),
            "new epoch": (0.01, self._raise_epoch),
        }
        for fault, (probability, happen) in happenings.items():
            if self._chance(fault, probability):
                happen()
        self._disturb_one()

    def _disturb_one(self) -> None:
        """What happens to one worker."""
        if not self._present():
            return
        agent = self._victim()
        if self._chance("kill", 0.006) and len(self.agents) < MOST_AGENTS:
            self._kill(agent)
        elif self._chance("stop", 0.006):
            agent.worker.stop()
        elif agent.worker.stopping and self._chance("kill", 0.05):
            agent.worker.given_up = True
        elif self._chance("silence", 0.01):
            leases = self.rng.choice((0.1, 0.3, 0.9, 1.5))
            agent.silent_until = self.time + int(leases * LEASE_MS)
        elif self._chance("stray ack", 0.03):
            self._stray_ack(agent.worker)

    def _victim(self) -> Agent:
        """Rather one that has something to lose."""
        agents = self._present()
        loaded = [one for one in agents if one.worker.parked or one.worker.outbox]
        return self.rng.choice(loaded if loaded and self.rng.random() < 0.5 else agents)

    # --- to workers ------------------------------------------------------------------

    def _join(self) -> None:
        if len(self.agents) >= MOST_AGENTS and self._present():
            return
        number = len(self.agents)
        request = JoinRequest(
            worker="",
            identity={"spider": "shop", "order": self.order},
            tunable={
                "lease_ms": str(LEASE_MS),
                "max_deliveries": str(self.max_deliveries),
            },
            new_token=f"token {number}",
            given=True,
            seeding=Seeding.OPEN,
            seeder=self.rng.random() < 0.5,
            keep_alive=self.kind == "talk" and not self.healing,
        )
        worker = self.worker_class(
            f"w{number}",
            request,
            lease_ms=LEASE_MS,
            limit=self.rng.choice((1, 2, 3, 6)),
            prefetch=4 if self.graph.killers else self.rng.randint(1, 4),
        )
        worker.keep_alive = request.keep_alive
        unknown: set[int] = set()
        if self._chance("old code", 0.5):
            unknown = {self.rng.randrange(16) for _ in range(10)}
        self.agents.append(Agent(worker, unknown, sent_at=self.time))

    def _kill(self, agent: Agent) -> None:
        agent.gone = True
        self._excuse(agent.worker.unconfirmed())
        unseen = agent.air is not None and agent.air.reply is None
        if agent.air is not None and unseen and self._chance("late copy", 0.5):
            self.copies.append(agent.air.request)

    def _stray_ack(self, worker: ModelWorker) -> None:
        """A worker reports the end of a page that it does not hold."""
        crawl = self.server.crawl
        if crawl is None or not crawl.requests:
            return
        id = self.rng.choice(sorted(crawl.requests))
        worker.outbox.append(Item(Ack(id, worker.batch + NEVER_REACHED)))

    # --- to the server ---------------------------------------------------------------

    def _outage(self) -> None:
        """No call reaches the server for longer than a lease.

        Not again before all had time to beat: a step of the crawl clock is much less
        than a lease, but so many of them are not.
        """
        if self.time < self.calm_until:
            return
        self.time += self.rng.randint(1, 4) * LEASE_MS
        self.calm_until = self.time + 2 * LEASE_MS
        self.server.now = self.time + self.skew

    def _take_snapshot(self) -> None:
        if self.server.crawl is None:
            return
        unconfirmed = chain(*(one.worker.unconfirmed() for one in self.agents))
        snapshot = Snapshot(
            copy.deepcopy(self.server), self.step_number, list(unconfirmed)
        )
        self.snapshots = [*self.snapshots[-3:], snapshot]

    def _roll_back(self) -> None:
        """Another server takes over, which has not got the newest of it."""
        if not self.snapshots:
            return
        snapshot = self.rng.choice([self.snapshots[-1], *self.snapshots])
        self.snapshots = [one for one in self.snapshots if one.step <= snapshot.step]
        now_us, room = self.server.now_us, self.server.room
        self.server = copy.deepcopy(snapshot.server)
        self.server.now_us, self.server.room = now_us, room
        self.rolled_back_at = self.step_number
        self._excuse(snapshot.unconfirmed)
        for run in self.runs:
            if run.ended_at is None or run.ended_at >= snapshot.step:
                self.allowed += self.graph.visits(run.visit)
        self.promised = {
            page: step for page, step in self.promised.items() if step < snapshot.step
        }
        for agent in self.agents:
            agent.executed, agent.told = None, []
        for request in self.recent:
            if self._chance("late copy", 0.5):
                self._call(request)

    def _fill(self) -> None:
        self.server.room = not self.server.room

    def _jump(self) -> None:
        self.skew += self.rng.choice((-1, 1)) * 3_600_000
        self.most_skew = max(self.skew, self.most_skew)
        self.server.now = self.time + self.skew

    def _break_script(self) -> None:
        self.server.fail_after = self.rng.choice((0, 0, 1, 3))

    def _pause(self) -> None:
        crawl = self.server.crawl
        running = crawl is not None and crawl.status is CrawlStatus.RUNNING
        wanted = CrawlStatus.PAUSED if running else CrawlStatus.RUNNING
        self.server.set_status(wanted)

    def _drain(self) -> None:
        """Whoever is there leaves, and so does who comes, until it is over."""
        crawl = self.server.crawl
        draining = crawl is not None and crawl.status is CrawlStatus.DRAINING
        wanted = CrawlStatus.RUNNING if draining else CrawlStatus.DRAINING
        self.server.set_status(wanted)

    def _raise_epoch(self) -> None:
        if self.server.crawl:
            self.server.crawl.epoch += 1
