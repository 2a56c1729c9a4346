"""What is told of a crawl that was exported or imported."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TextIO

from scrapy_redis_state.commands.output import complain, printable

if TYPE_CHECKING:
    from scrapy_redis_state.store.move import Moved

STREAM = "-"
"""In place of the name of a file: the input, or the output."""

_NAMES = {
    "pending": "pending",
    "in_flight": "in flight",
    "suspect": "suspects",
    "delayed": "delayed",
    "dead": "dead",
    "seen": "seen",
    "session": "sessions",
}
_ALWAYS = ("pending", "dead", "seen")


def contents_of(moved: Moved) -> str:
    """How much of each kind that people know."""
    counts = moved.counts
    shown = [kind for kind in _NAMES if kind in _ALWAYS or counts.get(kind)]
    if "bloom" in counts:
        shown.remove("seen")
    told = [f"{counts.get(kind, 0):,} {_NAMES[kind]}" for kind in shown]
    return ", ".join([*told, *["a Bloom filter"] * ("bloom" in counts)])


def tell(
    moved: Moved, crawl: str, text: str, *, as_json: bool, stream: TextIO | None = None
) -> None:
    """A line about it, or one of JSON; and on stderr what a person should know.

    :param crawl: id of the crawl as it is here
    :param stream: instead of stdout
    """
    stream = stream or sys.stdout
    if as_json:
        text = json.dumps(
            {
                "crawl": crawl,
                "exported_crawl": moved.crawl,
                "state": moved.status,
                "counts": dict(moved.counts),
                "notes": list(moved.notes),
            }
        )
    stream.write(printable(text) + "\n")
    if not as_json:
        for note in moved.notes:
            complain(f"note: {note}")
