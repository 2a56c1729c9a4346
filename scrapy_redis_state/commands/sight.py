"""What ``watch`` sees at one moment, and how it looks as one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scrapy_redis_state.commands.output import duration, per_sec


@dataclass(frozen=True, slots=True)
class Sight:
    """A crawl at one moment, or what kept it from being seen."""

    name: str
    """Of the crawl."""
    server: str
    """Its URL, without passwords."""
    at: datetime
    figures: dict[str, Any] | None = None
    """As ``status --json`` has them; None: never seen."""
    rates: Sequence[float] = field(default=())
    """Pages per second, over the last minutes."""
    lefts: Sequence[float] = field(default=())
    """Requests that were left, over the last minutes."""
    trouble: str = ""
    """Why it cannot be seen now; then the figures are those of before."""

    @property
    def known(self) -> int:
        """Pages that are done, or are to be done."""
        figures = self.figures or {}
        return int(figures.get("done", 0)) + self.left

    @property
    def left(self) -> int:
        """Requests that are not done."""
        figures = self.figures or {}
        names = ("pending", "in_flight", "delayed", "suspects")
        return sum(int(figures.get(name, 0)) for name in names)


def line_of(sight: Sight) -> str:
    """All that fits into a line, for logs."""
    start = f"{sight.at:%H:%M:%S}  {sight.name}"
    if sight.trouble or sight.figures is None:
        return f"{start}  {sight.trouble or 'not seen yet'}"
    one = sight.figures
    parts = [
        start,
        str(one["state"]),
        f"done {one['done']:,} ({per_sec(one['rate'])})",
        f"pending {one['pending']:,}",
        f"in flight {one['in_flight']:,}",
        f"delayed {one['delayed']:,}",
        f"dead {one['dead']:,}",
        f"workers {one['workers']}",
    ]
    if one["eta_secs"] is not None:
        parts.append(f"ETA {duration(one['eta_secs'])}")
    parts += [f"warning: {text}" for text in one["warnings"]]
    return "  ".join(parts)
