"""How fast a crawl goes, from what its exchanges note every ten seconds.

Nothing here is ever negative or no number: what cannot be known is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgpack

WINDOW_SECS = 60.0
"""Rates are those of the last minute, or of a little more."""
SHORTEST_SECS = 5.0
"""What is younger tells no rate."""
TREND_SECS = 300.0
"""Over so long the frontier is watched for growth."""
MANY = 1000
"""With fewer requests left, growth is no trouble."""
_FIELDS = 3


class Sample(NamedTuple):
    """The crawl at one moment."""

    at: float
    """Server time, in seconds."""
    done: int
    """Pages done in this generation."""
    left: int
    """Requests that are pending, in flight, delayed or suspects."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the crawl goes. Rates are per second."""

    done: float | None = None
    """Pages done."""
    stored: float | None = None
    """Requests that came, less those that became dead letters."""
    eta_secs: float | None = None
    """Until nothing is left, if it goes on so; None while nothing becomes less."""
    grows: float | None = None
    """By how much more is stored than done; None if that is no trouble, or not known
    over a minute at least."""


def read_samples(packed: bytes, generation: int) -> tuple[Sample, ...]:
    """Those of a generation, oldest first; none if they are of another, or unreadable.

    :param packed: as ``lua/include/pace.lua`` writes them
    """
    try:
        first, *flat = msgpack.unpackb(packed)
        samples = [
            Sample(flat[i] / 1000, int(flat[i + 1]), int(flat[i + 2]))
            for i in range(0, len(flat) - len(flat) % _FIELDS, _FIELDS)
        ]
    except (ValueError, TypeError, OverflowError):
        return ()
    return tuple(samples) if first == generation else ()


def pace(now: Sample, samples: Sequence[Sample]) -> Pace:
    """What the samples before *now* tell."""
    base = _before(now, samples, WINDOW_SECS)
    if base is None:
        return Pace()
    secs = now.at - base.at
    done = max(0, now.done - base.done) / secs
    growth = (now.left - base.left) / secs
    return Pace(
        done=done,
        stored=max(0.0, done + growth),
        eta_secs=now.left / -growth if growth < 0 else None,
        grows=_trend(now, samples),
    )


def rate(now: float, done: int, marks: Sequence[tuple[float, int]]) -> float | None:
    """Pages per second since the earliest of some marks, each a time with a count."""
    samples = [Sample(at, count, 0) for at, count in marks if at > 0]
    return pace(Sample(now, done, 0), samples).done


def _trend(now: Sample, samples: Sequence[Sample]) -> float | None:
    base = _before(now, samples, TREND_SECS)
    if base is None or now.at - base.at < WINDOW_SECS or now.left < MANY:
        return None
    if min(one.left for one in samples[-2:]) <= base.left or now.left <= base.left:
        return None
    growth = (now.left - base.left) / (now.at - base.at)
    # A tenth of what is done may be chance.
    done = max(0, now.done - base.done) / (now.at - base.at)
    return growth if growth > done / 10 else None


def _before(now: Sample, samples: Sequence[Sample], secs: float) -> Sample | None:
    """The newest that is at least so old; else the oldest that tells anything."""
    known = [one for one in samples if now.at - one.at >= SHORTEST_SECS]
    old = [one for one in known if now.at - one.at >= secs]
    return old[-1] if old else known[0] if known else None
