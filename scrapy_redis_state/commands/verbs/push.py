"""``push``: give a crawl more to do."""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.batches import batches
from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import complain, say
from scrapy_redis_state.commands.progress import Progress
from scrapy_redis_state.commands.request_lines import RequestLines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store import CrawlState
    from scrapy_redis_state.store.messages import Store

AHEAD = 4
"""Calls that are ready, or under way, while more lines are read."""

_STDIN = "-"


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("push", push, "give a crawl more requests")
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
        counted, size = _Counted(text or ()), _size(text)
        requests = chain(lines.read_arguments(args.urls), lines.read(counted))
        stored = 0
        for new in push_ahead(state, requests):
            stored += new
            progress.show(lines.good, counted.bytes, size)
    known = lines.good - stored
    say(f"{stored:,} pushed, {known:,} known already, {lines.bad:,} bad")
    return REFUSED if lines.bad else None


def push_ahead(state: CrawlState, requests: Iterable[Store]) -> Iterator[int]:
    """Push in the order given; yields how many of each call were new.

    The next calls are made ready while the server is at one, which is as long as it
    takes to make one ready.
    """
    in_the_air: deque[Future[list[bool]]] = deque()
    pool = ThreadPoolExecutor(1)
    try:
        for batch in batches(requests):
            if len(in_the_air) >= AHEAD:
                yield sum(in_the_air.popleft().result())
            in_the_air.append(pool.submit(state.push_many, batch))
        while in_the_air:
            yield sum(in_the_air.popleft().result())
    finally:
        pool.shutdown(cancel_futures=True)


class _Counted:
    """Lines, and how many bytes they had so far."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.bytes += len(line)
            yield line


def _size(text: BinaryIO | None) -> int:
    """Bytes of a file; 0 for what has no end yet."""
    if text is None:
        return 0
    found = os.fstat(text.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
