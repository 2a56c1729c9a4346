"""What verbs print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

SLOW = 10
"""Rates below this are shown to a hundredth."""
HIDDEN = "***"
"""In place of a value that is a secret."""


def say(text: str = "") -> None:
    """A line on stdout."""
    sys.stdout.write(printable(text) + "\n")


def say_json(value: Any) -> None:
    """A value as one line of JSON; what JSON does not know becomes text."""
    sys.stdout.write(json.dumps(_plain(value)) + "\n")


def complain(text: str) -> None:
    """A line on stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"redis-state: {printable(' '.join(text.split()))}\n")


def printable(text: str) -> str:
    """Without what a terminal would obey: some of it was written by web sites."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def say_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows with aligned columns."""
    lines = [list(header), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        say("  ".join(cells).rstrip())


def say_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one line each."""
    known = [(name, str(value)) for name, value in pairs]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        say(f"{name.ljust(width)}  {value}".rstrip())


def when(unix_secs: float) -> str:
    """A time, in UTC."""
    try:
        moment = datetime.fromtimestamp(unix_secs, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "?"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def duration(secs: float) -> str:
    """A time span in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if secs >= 2 * length:
            return f"{secs / length:.0f} {unit}"
    return f"{secs:.0f} s"


def size(number: float) -> str:
    """A number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:  # noqa: PLR2004 - what the units are made of
            return f"{number:,.{int(unit != 'B')}f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"


def per_sec(rate: float | None) -> str:
    """A rate."""
    if rate is None:
        return "-"
    return f"{rate:,.{2 if rate < SLOW else 1}f}/s"


def count(number: int, noun: str) -> str:
    """A number with what is counted."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(_plain(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value if isinstance(value, str | int | float | None) else str(value)
