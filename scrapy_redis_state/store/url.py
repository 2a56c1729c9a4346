"""Server URLs, read strictly and shown without their secrets.

The first three forms are those of redis-py::

    redis://[[user]:[password]@][host][:port][/db][?option=value&...]
    rediss://...                 the same over TLS
    unix://[[user]:[password]@]/path/to/socket[?db=n&...]

Two name several servers, any of which may be away (``rediss+...`` for TLS)::

    redis+sentinel://[login@]host[:port],host[:port].../master[/db][?...]
    redis+cluster://[login@]host[:port],host[:port]...[?...]

and one is for a server that is started when it is needed (:mod:`.embedded`)::

    embedded:/path/to/directory[?db=n&...]

They are read here and not by redis-py, which ignores what it does not understand
(``redis://host/typo`` is database 0), lets an option of the URL override what this
package relies on (``decode_responses``), and decodes options differently from
version to version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from scrapy_redis_state.store.url_options import SECRET, beginning, read_options

_OF_SEVERAL = {
    "redis+sentinel": 26379,
    "rediss+sentinel": 26379,
    "redis+cluster": 6379,
    "rediss+cluster": 6379,
}
SCHEMES = ("redis", "rediss", "unix", "embedded", *_OF_SEVERAL)
USABLE = (
    "use redis://, rediss:// (TLS), unix://, redis+sentinel://, redis+cluster:// "
    "or embedded:"
)
UNREADABLE = (
    "is not a readable URL: percent-encode special characters in user, password and "
    "path (%40 for @, %2F for /, %23 for #, %3F for ?)"
)
_HIDDEN = "***"


class Node(NamedTuple):
    """Where one server listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Address:
    """Where a server is and how to log in."""

    scheme: str
    shown: str
    """The URL with user, password and secret options hidden."""
    place: str
    """Which database it is, however one logs in and whatever the options are."""
    username: str = field(repr=False)
    password: str = field(repr=False)
    options: dict[str, Any] = field(repr=False)
    """Keyword arguments of a redis-py connection class; no login is among them.

    For ``embedded``, ``directory`` is the server's; None where the URL names none.
    """
    nodes: tuple[Node, ...] = ()
    """The Sentinels, or nodes of the cluster, to ask where to connect to."""
    master: str = ""
    """What the Sentinels call the server."""
    sentinel_login: tuple[str, str] = field(default=("", ""), repr=False)
    """User and password for the Sentinels themselves."""

    @property
    def uses_tls(self) -> bool:
        """The connection is encrypted."""
        return self.scheme.startswith("rediss")


def parse(url: str) -> Address:
    """Read a URL.

    :raises ValueError: saying what the URL "has" or "is", without any part of it.
    """
    scheme, hosts, parts = _split(url)
    if "@" in parts.path + parts.query or parts.fragment:
        raise ValueError(UNREADABLE)
    query = parse_qsl(parts.query, keep_blank_values=True)
    options = read_options(query, scheme)
    place = _PLACES.get(scheme, _host)(parts)
    if "db" in options and "db" in place:
        raise ValueError("names the database twice: remove ?db= or the path")
    login, sentinel_login = _logins(parts, options)
    options = {"db": 0} | options | place
    nodes = tuple(_node(host, _OF_SEVERAL[scheme]) for host in hosts)
    if scheme.endswith("+cluster") and options["db"]:
        raise ValueError("names a database: a cluster has no other than 0")
    master = options.pop("master", "")
    return Address(
        scheme=scheme,
        shown=_shown(scheme, ",".join(hosts), parts, query),
        place=_place(nodes, master, options),
        username=login[0],
        password=login[1],
        options=options,
        nodes=nodes,
        master=master,
        sentinel_login=sentinel_login,
    )


def masked(text: str) -> str:
    """The text, if it is a URL without its user and password, to be shown.

    A URL that cannot be read keeps its scheme only: an unescaped ``/`` or ``@`` in a
    password would else leave a part of it in sight.
    """
    try:
        return parse(text).shown
    except ValueError:
        scheme, separator, _ = text.partition("://")
        if separator:
            return f"{scheme}://{_HIDDEN}"
        return _HIDDEN if "@" in text or "password=" in text else text


def in_directory(url: str, directory: str) -> str:
    """The URL, if it is ``embedded:`` without a directory, with that one."""
    found = re.fullmatch(r"embedded:(?://)?(\?.*)?", url)
    if not found:
        return url
    return f"embedded:{quote(directory, errors='surrogateescape')}{found[1] or ''}"


def _split(url: str) -> tuple[str, list[str], SplitResult]:
    """Scheme, hosts if there may be several, and the URL with the first of them."""
    scheme = url.partition(":")[0]
    if scheme not in SCHEMES or not url.startswith(beginning(scheme)):
        raise ValueError(f"has no known scheme: {USABLE}")
    if not url.isprintable() or " " in url:
        raise ValueError(UNREADABLE)
    hosts: list[str] = []
    if scheme in _OF_SEVERAL:
        hosts, url = _take_out_hosts(url)
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it is what checks it
    except ValueError:
        # from None: the message of the standard library quotes the URL.
        raise ValueError(UNREADABLE) from None
    return scheme, hosts, parts


def _take_out_hosts(url: str) -> tuple[list[str], str]:
    """The hosts of a URL, and the URL without them."""
    found = re.fullmatch(r"([^:]+://)([^/?#]*)(.*)", url)
    assert found is not None
    login, at, hosts = found[2].rpartition("@")
    return (hosts or "localhost").split(","), found[1] + login + at + found[3]


def _node(text: str, port: int) -> Node:
    try:
        parts = urlsplit(f"//{text}")
        host = unquote(parts.hostname or "")
        port = port if parts.port is None else parts.port
    except ValueError:
        host = ""
    if not host:
        raise ValueError("has a host that is not host:port, as in host:port,host:port")
    return Node(host, port)


def _host(parts: SplitResult) -> dict[str, Any]:
    place: dict[str, Any] = {
        "host": unquote(parts.hostname or "localhost"),
        "port": 6379 if parts.port is None else parts.port,
    }
    return place | _database(parts.path)


def _database(path: str) -> dict[str, Any]:
    if path in ("", "/"):
        return {}
    if not re.fullmatch(r"/[0-9]{1,9}", path):
        raise ValueError("has a path that is not a database number, such as /0")
    return {"db": int(path[1:])}


def _watched(parts: SplitResult) -> dict[str, Any]:
    _, _, path = parts.path.partition("/")
    master, slash, database = path.partition("/")
    if not master:
        raise ValueError(
            "does not name the master that the Sentinels watch: "
            "redis+sentinel://host:26379,host:26379/mymaster"
        )
    return {"master": unquote(master)} | _database(slash + database)


def _socket(parts: SplitResult) -> dict[str, Any]:
    if parts.hostname or parts.path in ("", "/"):
        raise ValueError("needs an absolute path: unix:///path/to/redis.sock")
    return {"path": unquote(parts.path)}


def _directory(parts: SplitResult) -> dict[str, Any]:
    if parts.netloc or (parts.path and not parts.path.startswith("/")):
        raise ValueError("needs an absolute path: embedded:/path/to/directory")
    return {"directory": unquote(parts.path, errors="surrogateescape") or None}


_PLACES: dict[str, Callable[[SplitResult], dict[str, Any]]] = {
    "unix": _socket,
    "embedded": _directory,
    "redis+sentinel": _watched,
    "rediss+sentinel": _watched,
    "redis+cluster": lambda parts: _database(parts.path),
    "rediss+cluster": lambda parts: _database(parts.path),
}


def _logins(
    parts: SplitResult, options: dict[str, Any]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Take user and password, of the server and of the Sentinels, out of the options.

    What stands before the host goes before an option.
    """
    username, password, *sentinel_login = (options.pop(name, "") for name in SECRET)
    login = (
        unquote(parts.username or "") or username,
        unquote(parts.password or "") or password,
    )
    return login, (sentinel_login[0], sentinel_login[1])


def _place(nodes: tuple[Node, ...], master: str, options: dict[str, Any]) -> str:
    where = [f"{host}:{port}" for host, port in sorted(set(nodes))]
    where += [master] if master else []
    named = ("host", "port", "path", "directory", "db")
    where += [str(options[name]) for name in named if name in options]
    return " ".join(where)


def _shown(
    scheme: str, hosts: str, parts: SplitResult, query: list[tuple[str, str]]
) -> str:
    before, at, place = parts.netloc.rpartition("@")
    login = _HIDDEN + at if before else ""
    options = "&".join(
        f"{name}={_HIDDEN if name in SECRET else value}" for name, value in query
    )
    place = f"{beginning(scheme)}{login}{hosts or place}{parts.path}"
    return f"{place}{'?' if options else ''}{options}"
