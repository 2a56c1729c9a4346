"""The command as Scrapy knows it.

Every ``scrapy`` command loads this module, whichever it is: nothing that takes time, or
might fail, may be imported before this command is the one that runs.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_redis_state.commands.place import Place

REFUSED = 1
"""Exit status: it was not done, or not all of it, or there is no such thing."""
USAGE = 2
"""Exit status: the command makes no sense."""
INTERRUPTED = 130
"""Exit status: Ctrl-C."""


class RedisStateCommand(ScrapyCommand):
    """``scrapy redis-state VERB``."""

    requires_project = False
    requires_crawler_process = False

    def syntax(self) -> str:
        return "<verb> [options]"

    def short_desc(self) -> str:
        return "Look at crawls that are shared in Redis, and steer them"

    def long_desc(self) -> str:
        return (
            "Look at crawls that are shared in Redis, and steer them. 'scrapy"
            " redis-state <verb> --help' tells about a verb. Exit status: 0 if it was"
            " done, 1 if it was refused or there is no such thing, 2 if the command"
            " makes no sense."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        from scrapy_redis_state.commands.parsing import add_verbs  # noqa: PLC0415
        from scrapy_redis_state.commands.verbs import ADD_VERBS  # noqa: PLC0415

        super().add_options(parser)
        add_verbs(parser, ADD_VERBS)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError(f"unrecognized arguments: {' '.join(args)}")
        opts.set = [*opts.set, *opts.set_after]
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:  # noqa: ARG002
        from scrapy_redis_state.commands.place import Place  # noqa: PLC0415

        assert self.settings is not None
        self.exitcode = _status_of(opts.run, opts, Place(self.settings, opts))


def _status_of(
    run: Callable[[argparse.Namespace, Place], int | None],
    opts: argparse.Namespace,
    place: Place,
) -> int:
    """Run a verb; what is wrong is one line on stderr."""
    from scrapy_redis_state.commands.output import complain  # noqa: PLC0415
    from scrapy_redis_state.store.errors import RedisStateError  # noqa: PLC0415

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run(opts, place) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has enough. The interpreter would flush once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    except (RedisStateError, ValueError, OSError) as error:
        complain(place.describe(error))
        return REFUSED
    except UsageError as error:
        complain(str(error))
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
