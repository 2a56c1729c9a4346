"""What a server did between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.servers import cpu_seconds

QUESTIONS = 3
"""How often :func:`usage` asks; each is a round trip."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server has done since it started."""

    cpu_seconds: float
    """Processor time, user and system."""
    round_trips: int
    """How often it wrote to a client: once for each answer, or pipeline of answers."""
    commands: int
    """Commands executed, those of scripts included."""

    def since(self, before: Usage) -> Usage:
        """What it did meanwhile, without being asked about it."""
        return Usage(
            self.cpu_seconds - before.cpu_seconds,
            self.round_trips - before.round_trips - QUESTIONS,
            self.commands - before.commands,
        )


def usage(client: Any) -> Usage:
    """Ask a server what it has done."""
    stats = client.info("stats")
    ways = client.info("commandstats")
    calls = sum(
        int(one["calls"])
        for name, one in ways.items()
        if name not in ("cmdstat_info", "cmdstat_flushall", "cmdstat_ping")
    )
    return Usage(cpu_seconds(client), int(stats["total_writes_processed"]), calls)
