"""The story: a crawl that loses workers, gains one, and loses no page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storefront.catalog import Catalog

from runner import record as records
from runner.crawl_view import CrawlView
from runner.crew import Crew
from runner.opening import MEMBERS, Options, open_record
from runner.outcome import Hit, Outcome
from runner.progress import Figures, Progress
from runner.site import access_log, start_site
from runner.waiting import Interrupted, Patience, ScenarioError
from runner.workers import Role

if TYPE_CHECKING:
    from contextlib import ExitStack

    from runner.workers import Worker

LEASE_SECS = 5
SLOW_SECS = LEASE_SECS + 2.0
"""Time the slow page takes: longer than a lease, which only beats can renew."""
GRACE_SECS = 2
"""Time that running pages get when a worker is stopped; then others do them."""
KILL_AT, STOP_AT = 0.25, 0.5
"""Share of the products delivered when a worker is killed, and when one is stopped."""


@dataclass
class Scenario:
    """Runs once, from top to bottom. Whatever it starts is ended with ``stack``."""

    options: Options
    stack: ExitStack
    patience: Patience
    progress: Progress

    def run(self) -> Outcome:
        """Play the story and return what came of it.

        :raises ScenarioError: something did not start, or a worker ended by itself
        :raises RedisStateError: the server cannot be used, or went away
        :raises Interrupted: the user ended the run, which the next one resumes
        """
        self._open()
        self._start_site()
        for _ in range(self.options.workers):
            self._start_worker()
        started = self.crew.running()
        pids = ", ".join(str(worker.record.pid) for worker in started)
        spider = self.record.spider
        self._say(f"{len(started)} workers (scrapy crawl {spider}): pids {pids}")
        try:
            if not self.is_resumed:
                self._disturb(victim=started[0], leaver=started[-1])
            self.patience.wait_until(self._all_closed, self._watch)
        except Interrupted:
            self._say("interrupted: stopping the workers; the next run goes on here")
            self.crew.stop(GRACE_SECS + 3)
            raise
        self._say("all workers have closed")
        return self._finish()

    # --- the beginning ---------------------------------------------------------------

    def _open(self) -> None:
        self.directory = self.options.run_directory
        records.lock(self.directory, self.stack)
        self.record, why = open_record(self.options)
        self._say(f"{why[0].upper()}{why[1:]}")
        crawl, prefix = self.record.crawl, self.record.prefix
        self.view = CrawlView(self.options.server_url, prefix, crawl)
        self.stack.callback(self.view.close)
        self._say(f"server: {self.record.server or 'embedded'}; data: {self.directory}")
        self.crew = Crew(self.record, self.directory, self.stack)
        self.is_resumed = bool(self.crew.workers)
        if self.is_resumed:
            self._take_over()

    def _take_over(self) -> None:
        """Note what earlier workers left behind: items, and pages they held."""
        items = self.crew.items()
        if items and not self.view.exists():
            raise ScenarioError(
                "the server does not have the crawl any more: start over with --fresh"
            )
        self.crew.take_over()
        held = self.view.leases()
        self.record.held |= held
        self.record.save(self.directory)
        self._say(
            f"left behind: {items} items, {self.view.summary().pending} pages waiting,"
            f" {len(held)} held by workers that are gone"
        )

    def _start_site(self) -> None:
        size, port = self.record.products, self.record.port
        site = start_site(self.directory, size, SLOW_SECS, port, self.stack)
        self.site, self.record.port = site.url, site.port
        self.record.save(self.directory)
        self._say(f"site: {size} products at {site.url}, pid {site.pid}")

    def _start_worker(self, role: Role = Role.STEADY) -> Worker:
        settings = {
            "REDIS_STATE_URL": self.options.server_url,
            # Of its own, so that the run is apart from all else on a shared server.
            "REDIS_STATE_CRAWL_ID": self.record.crawl,
            "REDIS_STATE_KEY_PREFIX": self.record.prefix,
            # Short, so that the pages of a worker that is killed are back in time.
            "REDIS_STATE_LEASE_SECS": str(LEASE_SECS),
            "REDIS_STATE_REAP_INTERVAL_SECS": "1",
            # A page that is alone with its worker whenever that dies is taken for the
            # killer, and given up. Here it is us who kill.
            "REDIS_STATE_MAX_DELIVERIES": "100",
            "REDIS_STATE_SHUTDOWN_GRACE_SECS": str(GRACE_SECS),
        }
        if self.options.browser is not None:
            settings["SHOP_BROWSER"] = self.options.browser
        return self.crew.start(self.site, settings, role)

    # --- what happens to the workers -------------------------------------------------

    def _disturb(self, victim: Worker, leaver: Worker) -> None:
        if self._reaches(KILL_AT):
            self._kill(victim)
        if self._reaches(STOP_AT):
            self._replace(leaver)

    def _kill(self, victim: Worker) -> None:
        """Stop it, count its leases, kill it: so many pages may come twice."""
        pid = victim.record.pid
        while True:
            self.patience.wait_until(
                lambda: not victim.is_running() or bool(self.view.leases(pid)),
                self._watch,
            )
            if not victim.is_running() or not victim.freeze():
                return
            if held := self.view.leases(pid):
                break
            victim.thaw()
        victim.record.role = Role.KILLED.value
        self.record.held |= held
        self.record.save(self.directory)
        victim.kill()
        self._say(
            f"{victim.name}: killed with {len(held)} pages in hand;"
            f" they return in {LEASE_SECS} s"
        )

    def _replace(self, leaver: Worker) -> None:
        """Send SIGTERM to one worker and start a new one in its place."""
        self.patience.wait_until(
            lambda: leaver.is_open() or not leaver.is_running(), self._watch
        )
        if not leaver.is_running():
            return
        leaver.record.role = Role.STOPPED.value
        leaver.stop()
        newcomer = self._start_worker(Role.LATE)
        self._say(f"{leaver.name}: SIGTERM; it hands back what it has not done")
        self._say(f"{newcomer.name} joins the running crawl")

    # --- watching --------------------------------------------------------------------

    def _reaches(self, share: float) -> bool:
        """Wait until this share of the products is delivered; False if all closed."""
        goal = share * self.record.products
        self.patience.wait_until(
            lambda: self.crew.delivered() >= goal or self._all_closed(), self._watch
        )
        return not self._all_closed()

    def _all_closed(self) -> bool:
        return not self.crew.running()

    def _watch(self) -> None:
        """Show progress; raise if a worker failed."""
        self.crew.check()
        now = self.patience.elapsed()
        if self.progress.is_due(now):
            self.progress.show(now, self._figures())

    def _figures(self) -> Figures:
        crawl = self.view.summary()
        return Figures(
            pages=crawl.done,
            items=self.crew.items(),
            workers=len(self.crew.running()),
            pending=crawl.pending + crawl.delayed + crawl.suspects,
            in_flight=crawl.in_flight,
        )

    def _say(self, text: str) -> None:
        self.progress.say(self.patience.elapsed(), text)

    # --- the end ---------------------------------------------------------------------

    def _finish(self) -> Outcome:
        outcome = self._outcome()
        self.record.is_finished = True
        self.record.save(self.directory)
        self.view.remove()
        return outcome

    def _outcome(self) -> Outcome:
        lines = access_log(self.directory).read_text().splitlines()
        return Outcome(
            catalog=Catalog(self.record.products),
            workers=tuple(worker.outcome() for worker in self.crew.workers),
            hits=tuple(Hit(**json.loads(line)) for line in lines),
            held=len(self.record.held),
            given_up=self.view.summary().dead,
            is_resumed=self.is_resumed,
            needs_session=self.record.spider == MEMBERS,
        )
