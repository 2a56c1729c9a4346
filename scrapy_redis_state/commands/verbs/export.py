"""``export``: copy a whole crawl to a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.moved import STREAM, contents_of, tell
from scrapy_redis_state.commands.progress import Progress
from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("export", export, "copy a whole crawl to a file", reads=True)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="compressed JSON lines; plain ones if it ends in .jsonl; - is the output",
    )
    parser.add_argument(
        "--sessions",
        action="store_true",
        help="with all sessions under the prefix: whoever has the file is logged in",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also while the crawl is at work; the copy lacks what changes meanwhile",
    )


def export(args: argparse.Namespace, place: Place) -> int | None:
    """Write it, and say what there was."""
    to_stream = args.file == STREAM
    if to_stream and sys.stdout.isatty():
        raise UsageError("a terminal cannot show it: give a FILE, or use a pipe")
    with place.state() as state, Progress("entries") as progress:
        try:
            moved = state.export(
                sys.stdout.buffer if to_stream else args.file,
                force=args.force,
                sessions=args.sessions,
                progress=progress.show_entries,
            )
        except Refused as error:
            raise Refused(str(error).replace("force=True", "--force")) from None
    crawl = place.config.crawl_id
    where = "" if to_stream else f" to {args.file}"
    text = f"exported {crawl!r}{where}: {contents_of(moved)}"
    stream = sys.stderr if to_stream else None
    tell(moved, crawl, text, as_json=args.json, stream=stream)
    return None
