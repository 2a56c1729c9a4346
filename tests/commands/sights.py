"""Sights of a crawl that goes well, for what shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from scrapy_redis_state.commands.sight import Sight

MIB = 1024 * 1024


def worker_of(number: int, **fields: Any) -> dict[str, Any]:
    """One of the workers."""
    return {
        "worker": f"w{number:010d}",
        "host": f"host-{number % 3}",
        "pid": 4100 + number,
        "joined": 1_700_000_000 + number,
        "live": True,
        "busy": False,
        "beat_age_secs": 0.4,
        "held": 16,
        "oldest_lease_secs": 3.2,
        "done": 13_700 + 11 * number,
        "rate": 8.8,
    } | fields


def sight_of(*, workers: int = 3, warnings: Sequence[str] = (), **fields: Any) -> Sight:
    """A crawl in the middle of its work, with some figures other than those."""
    figures = {
        "state": "running",
        "generation": 1,
        "pending": 18_900,
        "in_flight": 48,
        "delayed": 102,
        "suspects": 0,
        "dead": 7,
        "seen": 60_257,
        "done": 41_200,
        "workers": workers,
        "seeding": "open",
        "rate": 26.4,
        "stored_rate": 21.9,
        "eta_secs": 725,
        "oldest_lease_secs": 3.2,
        "orphans": 0,
        "memory_bytes": 42 * MIB,
        "memory_by_key": {"requests": 30 * MIB, "seen": 9 * MIB, "frontier": 3 * MIB},
        "server_memory_bytes": 61 * MIB,
        "server_maxmemory_bytes": 512 * MIB,
        "server_policy": "noeviction",
        "warnings": list(warnings),
        "worker_list": [worker_of(number) for number in range(workers)],
    }
    return Sight(
        "shop:offers",
        "redis://db.example:6379/0",
        datetime(2026, 5, 4, 12, 30, tzinfo=timezone.utc),
        figures | fields,
        rates=[20 + (7 * n) % 11 + n / 6 for n in range(30)],
        lefts=[600 * n + 900 * (n % 3) for n in range(31)],
    )
