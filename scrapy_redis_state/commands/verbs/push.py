"""``push``: give a crawl more to do."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import complain, say
from scrapy_redis_state.commands.progress import Progress
from scrapy_redis_state.commands.request_lines import RequestLines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store import CrawlState
    from scrapy_redis_state.store.messages import Store

_STDIN = "-"


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("push", push, "give a crawl more requests", begins=True)
    parser.add_argument("urls", metavar="URL", nargs="*", help="of requests")
    parser.add_argument(
        "--file", metavar="FILE", help="with a URL on each line; - is the input"
    )
    parser.add_argument(
        "--json-lines",
        action="store_true",
        help="lines (and arguments) are requests as JSON: a URL, or an object with url,"
        " method, headers, body, cookies, meta, cb_kwargs, callback, errback, priority,"
        " dont_filter",
    )
    parser.add_argument(
        "--messages",
        action="store_true",
        help="as --json-lines, but objects may have any fields: for a spider with a"
        " method redis_state_request(message)",
    )
    parser.add_argument(
        "--priority", metavar="N", type=int, help="instead of each request's own (0)"
    )


def push(args: argparse.Namespace, place: Place) -> int | None:
    """Store them, and say how many were new; 1 if a line was none of a request."""
    if not args.urls and args.file is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("what? Give URLs, or --file FILE, or lines as input")
        args.file = _STDIN
    with ExitStack() as stack:
        text: BinaryIO | None = None
        if args.file == _STDIN:
            text = sys.stdin.buffer
        elif args.file is not None:
            text = stack.enter_context(Path(args.file).open("rb"))
        state = stack.enter_context(place.state())
        progress = stack.enter_context(Progress("requests"))

        def report(trouble: str) -> None:
            progress.hide()
            complain(trouble)

        lines = RequestLines(
            place.rules,
            priority=args.priority,
            as_json=args.json_lines or args.messages,
            as_messages=args.messages or place.spider_takes_messages,
            report=report,
        )
        requests = chain(lines.read_arguments(args.urls), lines.read(text or ()))
        stored = _push_all(state, requests, lines, text, progress)
    known = lines.good - stored
    say(f"{stored:,} pushed, {known:,} known already, {lines.bad:,} bad")
    return REFUSED if lines.bad else None


def _push_all(
    state: CrawlState,
    requests: Iterable[Store],
    lines: RequestLines,
    text: BinaryIO | None,
    progress: Progress,
) -> int:
    """Push and show how far it is; how many were new."""
    answered = stored = 0
    size = _size(text)
    try:
        for new in state.push_ahead(requests):
            answered += len(new)
            stored += sum(new)
            progress.show(answered, text.tell() if text and size else 0, size)
    except BaseException as error:
        # Of the first call alone, only who interrupts it need be told.
        if answered or (isinstance(error, KeyboardInterrupt) and lines.good):
            progress.hide()
            complain(
                f"stopped: {stored:,} pushed, {answered - stored:,} known already; the"
                f" next {lines.good - answered:,} may be in as well, or some of them"
            )
        raise
    return stored


def _size(text: BinaryIO | None) -> int:
    """Bytes of a file; 0 for what has no end yet."""
    if text is None:
        return 0
    found = os.fstat(text.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
