"""``import``: make a crawl of what another was."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.moved import STREAM, contents_of, tell
from scrapy_redis_state.commands.progress import Progress
from scrapy_redis_state.commands.verbs.import_scrapy_redis import (
    add_options,
    import_scrapy_redis,
)

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add(
        "import", import_, "make a crawl of what another was", begins=True
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="of 'export'; - is the input"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    add_options(parser)


def import_(args: argparse.Namespace, place: Place) -> int | None:
    """Make it, and say what it has."""
    if args.from_scrapy_redis:
        if args.file is not None:
            raise UsageError("one or the other: FILE or --from-scrapy-redis")
        return import_scrapy_redis(args, place)
    reads_input = args.file == STREAM
    if args.file is None or (reads_input and sys.stdin.isatty()):
        raise UsageError("what? Give the FILE of an export; - is the input")
    source = sys.stdin.buffer if reads_input else args.file
    with place.state() as state, Progress("entries") as progress:
        moved = state.import_(source, progress=progress.show_entries)
    crawl = place.config.crawl_id
    text = f"imported {crawl!r} ({moved.status}): {contents_of(moved)}"
    tell(moved, crawl, text, as_json=args.json)
    return None
