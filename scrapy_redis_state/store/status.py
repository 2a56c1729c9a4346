"""How a crawl stands: the script that looks at it, and what that tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scrapy_redis_state.store.call import Call, as_text, load_script, pairs
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Summary
from scrapy_redis_state.store.pace import Pace, Sample, pace, read_samples
from scrapy_redis_state.store.scripts import read_summary


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker; ``info`` is JSON with host, pid, joined (ms) and status.

    Ages are of the last exchange, or of the join. One that is not live has died, or
    fell silent.
    """

    id: str
    beat_age_ms: int
    """By the crawl clock, which stands still while nobody calls."""
    info: str
    is_live: bool = True
    is_busy: bool = False
    """It has work that the server cannot see, such as ``start()``."""
    silence_ms: int = 0
    """By the server's clock; -1: not known."""
    held: int = 0
    """Requests leased to it."""
    done: int = 0
    """Pages done since it joined."""
    oldest_ms: int = 0
    """For how long it had held its oldest lease when it called; 0: not known."""
    marks: tuple[tuple[float, int], ...] = ()
    """Two earlier moments (server time, seconds), each with the pages done by then."""


@dataclass(frozen=True, slots=True)
class StatusReply:
    """``generation`` 0: no such crawl."""

    generation: int
    given: bool
    seen_set: str
    """See :attr:`.seen.SeenSet.spec`; empty: not decided yet."""
    workers: tuple[WorkerStatus, ...]
    summary: Summary
    wrong: tuple[str, ...] = ()
    """A key that is not the crawl's, its type, and the type expected."""
    now: float = 0.0
    """Server time, in seconds."""
    silence_ms: int = -1
    """Since the last call of any worker; -1: there was none."""
    lease_ms: int = 0
    oldest_lease_ms: int = -1
    """How old the oldest lease is at least, on the crawl clock; -1: there is none."""
    leases: int = 0
    """Requests in flight whose owner is noted."""
    seed_failures: int = 0
    """How often ``start()`` raised."""
    seed_error: str = ""
    """What it raised last, in this generation or before."""
    samples: tuple[Sample, ...] = ()
    """The last five minutes, oldest first; see :mod:`.pace`."""

    @property
    def seen(self) -> int:
        """How many pages were seen, in the current epoch."""
        return self.summary.seen

    @property
    def left(self) -> int:
        """Requests that are not done."""
        one = self.summary
        return one.pending + one.in_flight + one.delayed + one.suspects

    @property
    def pace(self) -> Pace:
        """How fast it goes."""
        return pace(Sample(self.now, self.summary.done, self.left), self.samples)


_WORKER_FIELDS = 7


def _read_worker(fields: Sequence[Any]) -> WorkerStatus:
    id, beat_age, info, live, busy, silence, account = fields
    held, done, oldest, *marks = account
    return WorkerStatus(
        as_text(id),
        int(beat_age),
        info.decode(errors="replace"),
        bool(live),
        bool(busy),
        silence,
        held,
        done,
        oldest,
        tuple((at / 1000, count) for at, count in pairs(marks)),
    )


def status(keys: CrawlKeys, epoch: int) -> Call[StatusReply]:
    """A look at a crawl; changes nothing."""

    def read(reply: Sequence[Any]) -> StatusReply:
        generation, given, spec, flat, summary, wrong, now, silence, *more = reply
        lease, oldest, leases, failures, error, samples = more
        workers = tuple(
            _read_worker(flat[i : i + _WORKER_FIELDS])
            for i in range(0, len(flat), _WORKER_FIELDS)
        )
        return StatusReply(
            generation,
            bool(given),
            as_text(spec),
            workers,
            read_summary(summary),
            tuple(map(as_text, wrong)),
            now / 1000,
            silence,
            lease,
            oldest,
            leases,
            failures,
            error.decode(errors="replace"),
            read_samples(samples, generation),
        )

    return Call(load_script("status"), keys.for_script(epoch), [], read)
