"""``watch``: ``status``, again and again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from scrapy_redis_state.commands.output import complain, duration, say
from scrapy_redis_state.commands.overview import look
from scrapy_redis_state.commands.parsing import at_least
from scrapy_redis_state.commands.sight import Sight, line_of
from scrapy_redis_state.commands.sparkline import done_rates, left_counts
from scrapy_redis_state.store.errors import CommandFailed, Unavailable

if TYPE_CHECKING:
    import argparse
    from types import FrameType

    from redis import Redis

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place

Show: TypeAlias = Callable[[Sight], None]

NO_RICH = (
    "rich is not installed, so there is a line each time and no screen: pip install"
    " 'scrapy-redis-state[watch]'"
)


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("watch", watch, "show how a crawl goes, until Ctrl-C")
    parser.add_argument(
        "--interval",
        type=at_least(1),
        default=2,
        metavar="SECS",
        help="from one look to the next (2)",
    )
    parser.add_argument(
        "--count",
        type=at_least(1),
        metavar="N",
        help="end after so many looks",
    )


def watch(args: argparse.Namespace, place: Place) -> int | None:
    """Show it; Ctrl-C is the usual end, and no error."""
    eye = Eye(place)
    looks = count() if args.count is None else range(args.count)
    with suppress(KeyboardInterrupt), place.crawl_client() as client, _face() as show:
        for number in looks:
            if number:
                time.sleep(args.interval)
            show(eye.look(client))
    return None


class Eye:
    """Looks at a crawl, and remembers the last sight of it when it cannot be seen."""

    def __init__(self, place: Place) -> None:
        self._place = place
        config = place.config
        self._last = Sight(config.crawl_id, config.masked_url, _now())
        self._away_since: float | None = None

    def look(self, client: Redis) -> Sight:
        """The crawl now, or as it was and what keeps it from being seen."""
        try:
            overview = look(client, self._place.keys)
        except (Unavailable, CommandFailed) as error:
            # The second while a server that was restarted loads its data.
            self._last = replace(self._last, at=_now(), trouble=self._away(error))
            return self._last
        self._away_since = None
        if not overview.status.generation:
            missing = str(self._place.missing())
            self._last = Sight(
                self._last.name, self._last.server, _now(), trouble=missing
            )
            return self._last
        self._last = Sight(
            self._last.name,
            self._last.server,
            _now(),
            overview.figures(self._place.config.url),
            done_rates(overview.status),
            left_counts(overview.status),
        )
        return self._last

    def _away(self, error: Exception) -> str:
        if self._away_since is None:
            self._away_since = time.monotonic()
        secs = time.monotonic() - self._away_since
        return f"server away for {duration(secs)}, trying again: {error}"


def _now() -> datetime:
    return datetime.now(timezone.utc).astimezone()


@contextmanager
def _face() -> Iterator[Show]:
    """What sights are shown with: a screen, or lines where there can be none."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        yield _say_line
    elif find_spec("rich") is None:
        complain(NO_RICH)
        yield _say_line
    else:
        with _ended_by_sigterm(), _screen() as show:
            yield show


def _say_line(sight: Sight) -> None:
    say(line_of(sight))
    sys.stdout.flush()


@contextmanager
def _screen() -> Iterator[Show]:
    # Not before they are wanted: they are an extra.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from scrapy_redis_state.commands.screen import screen  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show(sight: Sight) -> None:
            live.update(screen(sight, console), refresh=True)

        yield show


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM leave the terminal as it was, too."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
