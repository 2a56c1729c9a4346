"""What can go wrong in a crawl, and which of it goes wrong in one schedule."""

from __future__ import annotations

import random
from typing import NamedTuple

FAULTS = (
    "kill",
    "stop",
    "join",
    "lost reply",
    "reset",
    "late copy",
    "silence",
    "outage",
    "rollback",
    "full",
    "clock jump",
    "script error",
    "pause",
    "drain",
    "stray ack",
    "old code",
    "new epoch",
)
HARMLESS = (
    "stop",
    "join",
    "pause",
    "drain",
    "outage",
    "full",
    "lost reply",
    "reset",
    "new epoch",
)
"""What must not lead to a single page being run twice."""


class Kind(NamedTuple):
    """A kind of schedules: what goes wrong in all of them, and what in some."""

    always: tuple[str, ...] = ()
    some: tuple[str, ...] = FAULTS
    most: int = 8
    """How many of *some* at most."""
    often: tuple[int, ...] = (1, 4, 8)
    """How much more often than usual a fault may happen."""

    def choose(self, rng: random.Random) -> dict[str, float]:
        """Faults, and how much more often than usual each happens.

        Few faults at a time, some of them often: most broken promises take two or three
        certain ones close together.
        """
        more = rng.sample(self.some, rng.randint(0, min(self.most, len(self.some))))
        return {
            **{fault: rng.choice(self.often) for fault in more},
            **dict.fromkeys(self.always, self.often[-1] / 2),
        }


KINDS = {
    # Nothing may be run twice.
    "harmless": Kind(some=HARMLESS, often=(1, 2)),
    # Some pages kill their worker each time.
    "killers": Kind(
        some=("join", "lost reply", "reset", "pause", "drain"), often=(1, 2)
    ),
    # Few pages, and workers that stay when the crawl is drained and come up with
    # requests by themselves.
    "talk": Kind(
        ("full", "stop", "join"),
        ("kill", "silence", "script error", "rollback", "late copy", "lost reply"),
        most=2,
    ),
    "full": Kind(("full", "kill"), ("stop", "silence", "lost reply", "join"), most=2),
    "old code": Kind(("old code", "join", "stop"), ("kill", "silence"), most=2),
    "failover": Kind(
        ("rollback", "late copy"), ("kill", "join", "lost reply", "clock jump"), most=2
    ),
    "any": Kind(),
}
