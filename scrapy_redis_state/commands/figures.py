"""The figures of a crawl, under the names that scripts know them by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store.messages import CrawlStatus, Seeding
from scrapy_redis_state.store.pace import rate

if TYPE_CHECKING:
    from scrapy_redis_state.store.status import StatusReply, WorkerStatus


def figures_of(status: StatusReply) -> dict[str, Any]:
    """What is the same for all crawls."""
    summary = status.summary
    return {
        "state": summary.status.value,
        "generation": status.generation,
        "pending": summary.pending,
        "in_flight": summary.in_flight,
        "delayed": summary.delayed,
        "dead": summary.dead,
        "seen": summary.seen,
        "done": summary.done,
        "workers": workers_at_work(status),
    }


def pace_figures(status: StatusReply) -> dict[str, Any]:
    """How it goes; what is not known is None."""
    is_over = status.summary.status is CrawlStatus.FINISHED
    pace = status.pace
    return {
        "rate": None if is_over else _rounded(pace.done),
        "stored_rate": None if is_over else _rounded(pace.stored),
        "eta_secs": None if is_over or pace.eta_secs is None else round(pace.eta_secs),
        "silence_secs": _secs(status.silence_ms),
        "oldest_lease_secs": oldest_lease_secs(status),
        "orphans": orphans(status),
    }


def worker_figures(worker: WorkerStatus, status: StatusReply) -> dict[str, Any]:
    """Who a worker is and what it does; what is not known is None."""
    try:
        info = json.loads(worker.info)
    except ValueError:
        info = {}
    if not isinstance(info, dict):
        info = {}
    live = is_at_work(worker, status)
    return {
        "worker": worker.id,
        "host": info.get("host"),
        "pid": info.get("pid"),
        "joined": info["joined"] / 1000 if "joined" in info else None,
        "live": live,
        "busy": worker.is_busy,
        "beat_age_secs": _secs(max(worker.silence_ms, worker.beat_age_ms)),
        "held": worker.held if live else None,
        "oldest_lease_secs": _held_for(worker) if live else None,
        "done": worker.done,
        "rate": _rounded(rate(status.now, worker.done, worker.marks)) if live else None,
    }


def is_at_work(worker: WorkerStatus, status: StatusReply) -> bool:
    """Whether it made a call within a lease, by the crawl clock and by the server's.

    The first stands still when nobody calls, and so tells nothing of the last worker.
    """
    return worker.is_live and worker.silence_ms < status.lease_ms


def workers_at_work(status: StatusReply) -> int:
    """How many there are."""
    return sum(is_at_work(worker, status) for worker in status.workers)


def is_over(status: StatusReply) -> bool:
    """Whether there is nothing that a worker could do."""
    summary = status.summary
    return summary.status is CrawlStatus.FINISHED or summary.drained


def orphans(status: StatusReply) -> int:
    """Requests in flight whose worker died or is not known; they come back by reaping.

    Those without a worker noted are among them.
    """
    held = sum(one.held for one in status.workers if is_at_work(one, status))
    return max(0, status.summary.in_flight - min(held, status.leases))


def oldest_lease_secs(status: StatusReply) -> float | None:
    """For how long the page that takes longest has been out; None: none is.

    At least: a program that is no spider does not tell of pages older than a lease.
    """
    ages = [_held_for(one) or 0 for one in status.workers if is_at_work(one, status)]
    if status.oldest_lease_ms < 0:
        return None
    return max([status.oldest_lease_ms / 1000, *ages])


def seed_error(status: StatusReply) -> str | None:
    """What ``start()`` raised last, as long as it is not done."""
    seeding = status.summary.seeding
    is_open = seeding in (Seeding.OPEN, Seeding.FAILED)
    return status.seed_error or None if status.seed_failures and is_open else None


def _held_for(worker: WorkerStatus) -> float | None:
    if not worker.held:
        return None
    since = max(0, worker.silence_ms) / 1000
    return since + worker.oldest_ms / 1000


def _secs(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
