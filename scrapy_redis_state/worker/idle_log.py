"""Says why a worker has nothing to do, so that nobody takes it for one that hangs."""

from __future__ import annotations

import logging

from scrapy_redis_state.store.messages import CrawlStatus, Seeding, Summary

logger = logging.getLogger(__name__)

PATIENCE_SECS = 5.0
"""Workers are idle for moments all the time; that is not told."""


class IdleLog:
    """Looks after each exchange; one line for each reason, and one when it is over."""

    def __init__(self) -> None:
        self._status = CrawlStatus.RUNNING
        self._idle_since: float | None = None
        self._told = ""

    def look(self, summary: Summary, *, is_idle: bool, now: float) -> None:
        """Say what has changed.

        :param is_idle: the worker holds nothing and runs nothing
        :param now: by the worker's clock, in seconds
        """
        self._look_at_status(summary.status)
        reason, text = _reason(summary) if is_idle else ("", "")
        if not reason:
            if self._told:
                logger.info("There is something to do again")
            self._idle_since, self._told = None, ""
            return
        if self._idle_since is None:
            self._idle_since = now
        if reason != self._told and now - self._idle_since >= PATIENCE_SECS:
            self._told = reason
            logger.info("Nothing to do for now: %(reason)s", {"reason": text})

    def _look_at_status(self, status: CrawlStatus) -> None:
        if status is self._status:
            return
        self._status = status
        if status is CrawlStatus.PAUSED:
            logger.info("The crawl is paused: what runs is finished")
        elif status is CrawlStatus.RUNNING:
            logger.info("The crawl goes on")


def _reason(summary: Summary) -> tuple[str, str]:
    """Its name, and what to say; empty if there is something to do, or an end."""
    if summary.status is not CrawlStatus.RUNNING or summary.pending:
        return "", ""
    if summary.seeding is Seeding.OPEN and not summary.seed_token:
        return "start", "another worker runs start()"
    if summary.in_flight or summary.suspects:
        count = summary.in_flight + summary.suspects
        return "others", f"others have {_requests(count)}, which may lead to more"
    if summary.delayed:
        return "later", f"{_requests(summary.delayed)} to be tried later"
    return "", ""


def _requests(count: int) -> str:
    return f"{count} request{'s' * (count != 1)}"
