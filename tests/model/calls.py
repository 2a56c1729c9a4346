"""Calls between workers and the server, which the network may lose or repeat."""

from __future__ import annotations

from scrapy_redis_state.store.messages import (
    CrawlStatus,
    ExchangeReply,
    JoinReply,
    JoinRequest,
    Status,
    Store,
    Summary,
)
from tests.model.agents import OUTSIDE, Agent, Air, Reply, Request
from tests.model.graph import Visit
from tests.model.operations import ScriptError
from tests.model.promises import Promises, Violation
from tests.model.server import CrawlFinishedError
from tests.model.worker import Item, ModelWorker


class Calls(Promises):
    """One step of one call at a time."""

    def _chance(self, fault: str, probability: float) -> bool:
        probability *= self.faults.get(fault, 0)
        return not self.healing and self.rng.random() < probability

    def _network(self, agent: Agent) -> None:
        if agent.air is None:
            self._send(agent)
        elif agent.air.reply is None:
            self._reach_server(agent, agent.air)
        elif self._chance("lost reply", 0.05):
            agent.air = None
        else:
            self._note_promises(agent.worker, agent.air)
            self._reach_worker(agent)

    def _send(self, agent: Agent) -> None:
        worker = agent.worker
        fresh = worker.call is None
        agent.sent_at = self.time
        agent.air = Air(worker.send(self.time))
        self.recent = [*self.recent[-5:], agent.air.request]
        if fresh and worker.call is not None:
            items = [*worker.call.items, *worker.outbox, *worker.parked]
            agent.loose = [item for item in items if _is_loose(item)]

    def _reach_server(self, agent: Agent, air: Air) -> None:
        if self._chance("reset", 0.05):
            agent.air = None
            return
        if self._chance("late copy", 0.05):
            self.copies.append(air.request)
        air.reply, air.replied_at = self._call(air.request), self.step_number
        if air.reply is None:
            agent.air = None

    def _reach_worker(self, agent: Agent) -> None:
        assert agent.air is not None
        assert agent.air.reply is not None
        worker, reply = agent.worker, agent.air.reply
        sent = worker.call.items if worker.call else []
        if isinstance(reply, ExchangeReply) and len(reply.answers) not in (
            0,
            len(sent),
        ):
            raise Violation(f"{worker.id} got the reply to another batch")
        lives, unconfirmed = worker.life, worker.unconfirmed()
        agent.air = agent.executed = None
        worker.receive(reply)
        if worker.life > lives or worker.closed:
            self._excuse(unconfirmed)
        agent.gone = bool(worker.closed)
        if worker.closed not in ("", "signed off", "finished"):
            raise Violation(f"{worker.id} ended: {worker.closed}")

    def _call(self, request: Request) -> Reply | None:
        """Have the server run a call; None if its script failed."""
        self.server.now_us += 1
        before = set(self.server.crawl.requests) if self.server.crawl else set()
        status = self.server.crawl.status if self.server.crawl else None
        reply: Reply | None = None
        try:
            if isinstance(request, JoinRequest):
                reply = self.server.join(request)
            else:
                reply = self.server.exchange(request)
        except ScriptError:
            pass
        self._note_execution(request, reply)
        self._check_enqueued(before)
        self._check_state()
        if isinstance(reply, ExchangeReply) and _is_over(reply.summary):
            self._check_drained()
            self._check_finished(reply)
        if status is not CrawlStatus.FINISHED:
            self._check_not_held(request, status)
        return reply

    def _note_execution(self, request: Request, reply: Reply | None) -> None:
        """Remember what was run though its worker does not know it yet."""
        for agent in self._present():
            call = agent.worker.call
            if call is None or call.request is not request:
                continue
            if isinstance(reply, JoinReply):
                agent.told = agent.loose
            elif reply is not None and reply.status is Status.OK:
                agent.executed, agent.told = reply, agent.loose

    def _excuse(self, unconfirmed: list[bytes]) -> None:
        """What was not confirmed may be repeated."""
        for payload in unconfirmed:
            self.allowed += self.graph.visits(Visit.read(payload))

    def _push(self) -> None:
        """A producer asks for a page."""
        if self.server.crawl is None or not self.server.room:
            return
        try:
            self.server.push([self._outside_request()])
            self.promised[OUTSIDE + self.outside] = self.step_number
        except CrawlFinishedError:
            pass
        self._check_state()

    def _outside_request(self) -> Store:
        self.outside += 1
        filtered = self.rng.random() < 0.5
        return Visit(OUTSIDE + self.outside, filtered=filtered).store(priority=1)

    def _note_promises(self, worker: ModelWorker, air: Air) -> None:
        """The worker learns that outside requests of its are stored."""
        if not isinstance(air.reply, ExchangeReply) or worker.call is None:
            return
        if air.replied_at < self.rolled_back_at:
            return
        for item, answer in zip(worker.call.items, air.reply.answers, strict=False):
            if isinstance(item.operation, Store) and answer.value in "sd":
                page = Visit.read(item.operation.payload).page
                if page >= OUTSIDE:
                    self.promised[page] = air.replied_at


def _is_over(summary: Summary) -> bool:
    return summary.drained or summary.status is CrawlStatus.FINISHED


def _is_loose(item: Item) -> bool:
    return isinstance(item.operation, Store) and item.page is None
