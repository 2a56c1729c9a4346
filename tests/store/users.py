"""The user that the documentation says a crawl needs."""

from __future__ import annotations

import re
import shlex
from urllib.parse import quote

from tests.processes import REPOSITORY
from tests.servers import Server
from tests.store.clients import PASSWORD

PAGE = REPOSITORY / "docs" / "howto" / "connections.rst"
PREFIX = "shop:"


def documented_user(password: str = PASSWORD, more: str = "") -> list[str]:
    """The command of the documentation that makes the user."""
    found = re.search(r":caption: user\n\n((?: {3}.*\n)+)", PAGE.read_text())
    assert found, "the page has a block with the user"
    words = shlex.split(found[1].replace(">PASSWORD", shlex.quote(f">{password}")))
    return [*words, *more.split()]


def documented_for_clusters() -> str:
    """What the documentation adds in a cluster."""
    return _quoted(r"In a cluster add ``(.+?)``")


def documented_for_sentinels() -> str:
    """What the documentation gives the user of the Sentinels."""
    return _quoted(r"On the Sentinels, their user needs\s+``(.+?)``")


def _quoted(pattern: str) -> str:
    found = re.search(pattern, PAGE.read_text())
    assert found, f"the page says {pattern}"
    return found[1]


def url_of_user(server: Server, password: str = PASSWORD) -> str:
    login = f"crawler:{quote(password, safe='')}@"
    return server.url.replace("://", f"://{login}")
