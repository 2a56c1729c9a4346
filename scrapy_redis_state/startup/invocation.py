"""Which Scrapy command this process is running."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from scrapy_redis_state.settings import is_enabled

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

NOT_SHARED = frozenset(
    {
        "bench",
        "check",
        "edit",
        "fetch",
        "genspider",
        "list",
        "parse",
        "settings",
        "shell",
        "startproject",
        "version",
        "view",
    }
)
"""Commands that look at single pages, or at none: they take no part in a crawl."""


BIN = frozenset({"bin", "Scripts"})
"""Directories of installed programs."""

PROGRAMS = frozenset({("scrapy", "__main__.py"), ("scrapy", "cmdline.py")})


def scrapy_command(argv: list[str]) -> str | None:
    """The command in *argv* (as ``sys.orig_argv``), if ``scrapy`` was run.

    Scrapy removes it from ``sys.argv`` before settings are read, and tells nobody.
    """
    for index, argument in enumerate(argv):
        if index and _is_scrapy(argv[index - 1], argument, is_first=index == 1):
            rest = argv[index + 1 :]
            return next((word for word in rest if not word.startswith("-")), None)
    return None


def _is_scrapy(before: str, argument: str, *, is_first: bool) -> bool:
    """Whether an argument is Scrapy's program, also under a debugger or the like.

    A crawl must never run unshared because an argument of it happens to be "scrapy".
    """
    if re.fullmatch("-[A-Za-z]*m", before):
        return argument in ("scrapy", "scrapy.cmdline")
    path = PurePath(argument)
    if path.parts[-2:] in PROGRAMS:
        return True
    return path.stem == "scrapy" and (is_first or path.parent.name in BIN)


def takes_part(settings: BaseSettings) -> bool:
    """Whether crawlers of this process, with these settings, share a crawl."""
    return is_enabled(settings) and scrapy_command(sys.orig_argv) not in NOT_SHARED
