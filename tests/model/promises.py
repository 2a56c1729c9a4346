"""What the product promises, as checks that run after every call and at the end."""

from __future__ import annotations

from collections import Counter

from scrapy_redis_state.store.messages import (
    Answer,
    CrawlStatus,
    ExchangeReply,
    ExchangeRequest,
    JoinRequest,
    Operation,
    Seeding,
    Status,
)
from tests.model.agents import OUTSIDE, Agent, Scene
from tests.model.base import CLOCK_STEP_MS
from tests.model.fsck import fsck
from tests.model.graph import Visit
from tests.model.state import Crawl
from tests.model.worker import ModelWorker

NEVER_RETRIED = 1000


class Violation(AssertionError):
    """A promise is broken."""


class Promises(Scene):
    """Raises :exc:`Violation` as soon as a promise is broken."""

    # --- after every call ------------------------------------------------------------

    def _check_state(self) -> None:
        errors = fsck(self.server)
        if errors:
            raise Violation("; ".join(errors))
        for agent in self._present():
            self._check_agreement(agent)
        self._check_nothing_lost()

    def _check_agreement(self, agent: Agent) -> None:
        """A worker that the server counts on holds what the server says it holds.

        So no two of them ever hold the same request, and none is leased to a worker
        that does not know it.
        """
        crawl, worker = self.server.crawl, agent.worker
        if crawl is None or agent.executed or not self._is_in_touch(worker):
            return
        leased = {(id, crawl.leases[id].batch) for id in crawl.leased_to(worker.id)}
        held = {(page.id, page.batch) for page in worker.held}
        if leased != held:
            raise Violation(f"{worker.id} holds {held}, the server says {leased}")

    def _is_in_touch(self, worker: ModelWorker) -> bool:
        """Whether the server will take its next batch."""
        crawl = self.server.crawl
        if crawl is None or not crawl.live(worker.id) or worker.joining:
            return False
        record = crawl.workers[worker.id]
        return (record.batch, record.stamp) == (worker.batch, worker.stamp)

    def _check_enqueued(self, before: set[str]) -> None:
        """A filtered request enters the frontier once in a generation."""
        crawl = self.server.crawl
        for id in crawl.requests.keys() - before if crawl else ():
            visit = Visit.read(crawl.requests[id].payload) if crawl else Visit(0)
            self.enqueued[visit.page] += visit.filtered
            if self.enqueued[visit.page] > 1 and not self.rolled_back_at:
                raise Violation(f"page {visit.page} was enqueued twice")

    # --- nothing is lost -------------------------------------------------------------

    def _check_nothing_lost(self) -> None:
        """If all workers died now, all that is missing would still be done."""
        crawl = self.server.crawl
        if crawl is None:
            return
        state = (
            len(crawl.requests),
            crawl.sequence,
            crawl.seeding,
            len(crawl.seen),
            len(self.completed),
            len(self.promised),
            self.rolled_back_at,
        )
        if state == self.checked:
            return
        self.checked = state
        left = [Visit.read(entry.payload) for entry in crawl.requests.values()]
        if crawl.seeding in (Seeding.NONE, Seeding.OPEN):
            left += [
                visit for visit in self.graph.starts if not self._is_known(visit, crawl)
            ]
        coming: set[int] = set()
        while left:
            visit = left.pop()
            if visit.page not in coming:
                coming.add(visit.page)
                content = visit._replace(attempt=NEVER_RETRIED)
                children = self.graph.children(content)
                left += [one for one in children if not self._is_known(one, crawl)]
        lost = self._missing() - coming
        if lost:
            raise Violation(f"{lost} are not done, and nothing would lead to them")

    def _is_known(self, visit: Visit, crawl: Crawl) -> bool:
        """Whether this request would be a duplicate."""
        return visit.filtered and visit.fingerprint in crawl.seen

    def _missing(self) -> set[int]:
        """Pages that are not done and should be by now."""
        dead = self._dead()
        wanted = self.graph.reachable(without=dead) | set(self.promised)
        return wanted - dead - self.completed

    def _dead(self) -> set[int]:
        crawl = self.server.crawl
        letters = crawl.deadinfo.values() if crawl else ()
        return {Visit.read(letter.payload).page for letter in letters}

    # --- drained and finished --------------------------------------------------------

    def _check_drained(self) -> None:
        """Drained means that nobody has anything left to do, or to be told of."""
        if self._missing():
            raise Violation(f"drained, and {self._missing()} are not done")
        for agent in self._present():
            loose = self._loose(agent)
            if loose:
                raise Violation(f"drained, and {agent.worker.id} has {loose}")

    def _loose(self, agent: Agent) -> list[Operation]:
        """What a live worker had when it last told whether it is busy.

        New requests of no page, so that no lease stands for them, and not stored yet.
        What an idle worker comes up with later opens a drained crawl again.
        """
        worker, crawl = agent.worker, self.server.crawl
        record = crawl.workers.get(worker.id) if crawl else None
        if crawl is None or record is None:
            return []
        most = min(CLOCK_STEP_MS, crawl.lease_ms // 2)
        passed = max(0, min(self.server.now - crawl.last_time, most))
        if record.beat + crawl.lease_ms <= crawl.clock + passed:
            return []
        waiting = [*worker.outbox, *worker.parked]
        items = worker.call.items if worker.call else []
        if agent.executed is None:
            waiting += items
        else:
            answers = agent.executed.answers
            pairs = zip(items, answers, strict=True)
            waiting += [item for item, answer in pairs if answer is Answer.REFUSED]
        return [item.operation for item in agent.told if item in waiting]

    def _check_finished(self, reply: ExchangeReply) -> None:
        """Only the last live worker finishes a crawl."""
        finished = reply.summary.status is CrawlStatus.FINISHED
        if reply.status is Status.OK and finished and reply.summary.workers:
            raise Violation("finished, and other workers live")

    def _check_not_held(
        self, request: JoinRequest | ExchangeRequest, before: CrawlStatus | None
    ) -> None:
        """What somebody holds, or its workers keep alive, is not finished."""
        crawl = self.server.crawl
        if crawl is None or crawl.status is not CrawlStatus.FINISHED:
            return
        if before is not CrawlStatus.RUNNING:
            raise Violation(f"finished, though it was {before}")
        ends = isinstance(request, ExchangeRequest) and request.ends
        if crawl.keep_alive and not ends:
            raise Violation("finished, though its workers keep it alive")

    # --- at the end ------------------------------------------------------------------

    def _check_end(self) -> None:
        dead = self._dead()
        if self._missing():
            raise Violation(f"{self._missing()} were lost")
        if self.graph.killers:
            killers = set(self.graph.killers)
            reached = self.graph.reachable(without=killers)
            if not killers & reached <= dead <= killers:
                raise Violation(f"{dead} are dead, and {killers} should be")
        elif dead and "old code" not in self.faults:
            raise Violation(f"{dead} are dead")
        self._check_repeats()

    def _check_repeats(self) -> None:
        visits = Counter(run.visit.page for run in self.runs)
        expected = self.graph.visits_without_faults()
        expected += Counter(page for page in visits if page >= OUTSIDE)
        for page, count in visits.items():
            excess = count - expected[page]
            if excess > (0 if self.exact else self.allowed[page]):
                raise Violation(f"page {page} ran {excess} times more than it may")
        if self.exact and not self.graph.killers and visits != expected:
            raise Violation("a page was not run as often as it should")
