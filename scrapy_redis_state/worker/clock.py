"""The worker's own clock, for how long it has had no answer."""

from __future__ import annotations

import time

# It goes on while the machine sleeps, which is when a worker loses its leases.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Seconds since some point in the past."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
