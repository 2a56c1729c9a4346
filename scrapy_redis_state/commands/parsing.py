"""Which verbs there are, and what the command line says."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

if TYPE_CHECKING:
    from scrapy_redis_state.commands.place import Place

Run: TypeAlias = Callable[[argparse.Namespace, "Place"], "int | None"]
"""What a verb does; the exit status, or None for 0."""

_NAME = "scrapy redis-state"


class Verbs:
    """Verbs, or what one verb can do (``session list``)."""

    def __init__(self, parser: argparse.ArgumentParser, name: str = _NAME) -> None:
        self._name = name
        self._parsers = parser.add_subparsers(
            title="verbs",
            metavar="<verb>",
            dest=name.removeprefix(_NAME).strip() or "verb",
            required=True,
            parser_class=VerbParser,
            prog=name,
        )

    def add(
        self,
        name: str,
        run: Run,
        text: str,
        *,
        crawl: bool = True,
        reads: bool = False,
        begins: bool = False,
    ) -> argparse.ArgumentParser:
        """A parser for what the verb takes.

        :param text: what it does, in one line
        :param crawl: whether it is about one crawl
        :param reads: whether it only looks, and can answer in JSON
        :param begins: whether it makes something where nothing is: a crawl, a session
        """
        parser = self._parsers.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        parser.set_defaults(run=run, begins=begins)
        _add_place(parser, crawl=crawl, default=argparse.SUPPRESS)
        if reads:
            parser.add_argument("--json", action="store_true", help="answer in JSON")
        return parser

    def group(self, name: str, text: str) -> Verbs:
        """A verb that is followed by another."""
        parser = self._parsers.add_parser(name, help=text)
        return Verbs(parser, f"{self._name} {name}")


class VerbParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        sys.exit(2)


def add_verbs(
    parser: argparse.ArgumentParser, adders: Iterable[Callable[[Verbs], None]]
) -> None:
    """Make a parser of the whole command, with verbs that add themselves."""
    _add_place(parser, crawl=True, default=None)
    parser.set_defaults(set_after=[])
    verbs = Verbs(parser)
    for add in adders:
        add(verbs)


def _add_place(
    parser: argparse.ArgumentParser, *, crawl: bool, default: str | None
) -> None:
    """Options that say which crawl, before the verb or after it."""
    options: Sequence[tuple[str, str, str]] = [
        ("--url", "URL", "of the server (REDIS_STATE_URL)"),
        ("--prefix", "TEXT", "of all keys (REDIS_STATE_KEY_PREFIX)"),
        ("--spider", "NAME", "go by the settings of this spider of the project"),
    ]
    if crawl:
        options = [("--crawl", "ID", "the crawl (REDIS_STATE_CRAWL_ID)"), *options]
    group = parser.add_argument_group("which crawl" if crawl else "where")
    for name, metavar, text in options:
        group.add_argument(name, metavar=metavar, help=text, default=default)
    if default is argparse.SUPPRESS:
        group.add_argument(
            "-s",
            "--set",
            dest="set_after",
            action="append",
            metavar="NAME=VALUE",
            help="set a setting (may be repeated)",
            default=default,
        )


def regex(text: str) -> re.Pattern[str]:
    """A regular expression of the command line."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regex: {error}") from None


def at_least(least: int) -> Callable[[str], int]:
    """A whole number of the command line that is not smaller."""
    return _whole(least, None, f"from {least} on")


def whole_from_to(least: int, most: int) -> Callable[[str], int]:
    """A whole number of the command line that is neither smaller nor larger."""
    return _whole(least, most, f"from {least} to {most}")


def _whole(least: int, most: int | None, limits: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {limits}")
        return number

    return read
