"""A crawl in which things go wrong: workers, a server, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scrapy_redis_state.store.messages import Ack, CrawlStatus, Delay, Fail, HandBack
from tests.model.agents import Agent, Run
from tests.model.graph import Visit
from tests.model.happenings import Happenings
from tests.model.promises import Violation
from tests.model.worker import ModelWorker, Page

STEP_MS = 150
"""What passes at most from one step to the next."""
BEAT_MS = 2000
"""A worker that is not silent sends at least this often."""
STEPS = 600
ENOUGH_STEPS = 8000
"""Any crawl of this size has ended by then, once nothing goes wrong any more."""
PUT_OFF_CHANCE = 0.02
MOST_OUTSIDE = 50


class World(Happenings):
    """One schedule: :meth:`run` raises ``Violation`` if a promise is broken."""

    def run(self) -> None:
        """Let things go wrong, then let the crawl end."""
        for _ in range(self.rng.randint(1, 4)):
            self._join()
        for _ in range(self.rng.randint(STEPS // 2, STEPS)):
            self._step()
        self._heal()
        for _ in range(ENOUGH_STEPS):
            if self._is_over():
                break
            if not self._present():
                self._join()
            self._step()
        else:
            raise Violation("the crawl does not end")
        self._check_end()

    def _heal(self) -> None:
        self.healing = True
        self.server.room, self.server.fail_after = True, None
        self.skew = self.most_skew
        for request in self.copies:
            self._call(request)
        for agent in self.agents:
            agent.silent_until = 0
            agent.worker.keep_alive = False
        self.server.set_status(CrawlStatus.RUNNING)

    def _is_over(self) -> bool:
        crawl = self.server.crawl
        finished = crawl is not None and crawl.status is CrawlStatus.FINISHED
        return finished and not self._present()

    def _step(self) -> None:
        self.step_number += 1
        self.time += self.rng.randint(1, STEP_MS)
        self.server.now = self.time + self.skew
        if not self.healing:
            self._disturb()
        agent = self._next_agent()
        if agent is None:
            return
        for _ in range(self.rng.randint(0, 4)):
            if not agent.gone:
                self._work(agent)
        overdue = self.time - agent.sent_at > BEAT_MS
        for _ in range(self.rng.randint(int(overdue), 4)):
            if not agent.gone:
                self._network(agent)

    def _next_agent(self) -> Agent | None:
        awake = [agent for agent in self._present() if self.time >= agent.silent_until]
        overdue = [one for one in awake if self.time - one.sent_at > BEAT_MS]
        if overdue:
            return min(overdue, key=lambda agent: agent.sent_at)
        return self.rng.choice(awake) if awake else None

    # --- what workers do -------------------------------------------------------------

    def _work(self, agent: Agent) -> None:
        worker = agent.worker
        if self._thinks_of_something(agent):
            for _ in range(self.rng.choice((1, 1, 3))):
                worker.add(self._outside_request())
            return
        choices: list[Callable[[], None]] = [partial(self._start_page, agent)]
        choices += [partial(self._go_on, agent, run) for run in agent.runs]
        if worker.start is not None and worker.start.end is None:
            choices += [partial(self._give_start, worker)] * 2
        self.rng.choice(choices)()

    def _thinks_of_something(self, agent: Agent) -> bool:
        """Whether it makes a request of no page; most do so when they are idle."""
        if agent.worker.leaving or self.healing or self.outside >= MOST_OUTSIDE:
            return False
        chance = self.outside_chance / (5 if agent.worker.held else 1)
        return self.rng.random() < chance

    def _start_page(self, agent: Agent) -> None:
        page = agent.worker.start_page(self.time)
        if page is None:
            return
        visit = Visit.read(page.payload)
        if visit.page in agent.unknown:
            delay = self.rng.randint(500, 10_000)
            end = HandBack(page.id, page.batch, delay, "unknown callback")
            agent.worker.end_page(page, end)
            return
        if self.rng.random() < PUT_OFF_CHANCE:
            delay = self.rng.randint(500, 10_000)
            agent.worker.end_page(page, Delay(page.id, page.batch, delay))
            return
        run = self._plan(page, visit)
        agent.runs.append(run)
        self.runs.append(run)

    def _plan(self, page: Page, visit: Visit) -> Run:
        children = [
            child.store(self.rng.randint(0, 2)) for child in self.graph.children(visit)
        ]
        if visit.page in self.graph.killers:
            return Run(page, visit, children, None)
        if self.failures.get(visit.page, 0) > 0:
            self.failures[visit.page] -= 1
            children = children[: self.rng.randint(0, len(children))]
            delay = self.rng.randint(0, 2000)
            end = Fail(page.id, page.batch, delay, "the callback raised")
            return Run(page, visit, children, end)
        return Run(page, visit, children, Ack(page.id, page.batch))

    def _go_on(self, agent: Agent, run: Run) -> None:
        if run.children:
            agent.worker.add(run.children.pop(0), run.page)
        elif run.end is None:
            self._kill(agent)
        else:
            agent.runs.remove(run)
            run.ended_at = self.step_number
            if isinstance(run.end, Ack) and not self.graph.is_retried(run.visit):
                self.completed.add(run.visit.page)
            agent.worker.end_page(run.page, run.end)

    def _give_start(self, worker: ModelWorker) -> None:
        assert worker.start is not None
        seeds = list(self.graph.seeds())
        if worker.start.given < len(seeds):
            worker.add_start(seeds[worker.start.given])
        elif not self.exact and not self.healing and self.rng.random() < 0.2:
            worker.end_start(error="start() raised")
        else:
            worker.end_start()
