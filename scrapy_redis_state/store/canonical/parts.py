"""The parts of a URL, each in the one form that all its equal spellings have.

They take what :class:`scrapy.Request` makes of a URL, and agree with
:func:`w3lib.url.canonicalize_url` (2.5) where nothing else is said. They do not call
it, so that another version of w3lib makes no other fingerprints.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import quote_plus, unquote_to_bytes

DEFAULT_PORTS = {"http": "80", "https": "443"}

_PLAIN = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,:=@[]|"
)
"""Characters of a path that mean the same when they are percent-encoded.

Not among them: ``/``, ``;`` and ``?``, which divide, and ``%``.
"""

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_UNCHANGED = re.compile("[A-Za-z0-9_.~-]*").fullmatch
_UNCHANGED_FORM = re.compile("[A-Za-z0-9_.~+-]*").fullmatch


@lru_cache(1024)
def canonical_authority(authority: str, scheme: str) -> tuple[str, str]:
    """User, host and port as they are compared, and the host alone.

    The host in lower case and without trailing dots, the port only if it is not the
    scheme's own. User and password stay as they are.
    """
    user, at, server = authority.rpartition("@")
    host, colon, port = server.rpartition(":")
    if not colon or "]" in port:
        host, port = server, ""
    host = host.lower()
    if host.startswith("["):
        host = _ipv6(host)
    host = host.rstrip(".") or host
    port = port.lstrip("0") or port
    if port in ("", DEFAULT_PORTS[scheme]):
        return f"{user}{at}{host}", host
    return f"{user}{at}{host}:{port}", host


def _ipv6(host: str) -> str:
    try:
        return f"[{IPv6Address(host[1:-1])}]"
    except ValueError:
        return host


def canonical_path(path: str) -> str:
    """Escapes that are not needed are decoded, dot segments followed.

    What follows a semicolon in the last segment stays as it is.
    """
    start = path.find(";", path.rfind("/"))
    path, parameters = (path, "") if start < 0 else (path[:start], path[start:])
    if "%2" in path:
        path = path.replace("%2e", ".").replace("%2E", ".")
    if "/." in path:
        path = _without_dots(path)
    if "%" in path:
        path = _unescaped(path)
    return path + parameters


def _unescaped(path: str) -> str:
    # A decoded digit behind a lone % would make an escape that was none.
    if _LONE_PERCENT.search(path):
        return _in_upper_case(path)
    return _ESCAPE.sub(_decoded, path)


def _decoded(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if character in _PLAIN else escape[0].upper()


def _in_upper_case(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text)


def _without_dots(path: str) -> str:
    """Apply RFC 3986, section 5.2.4."""
    *segments, last = path[1:].split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if last == "..":
        del kept[-1:]
    kept.append("" if last in (".", "..") else last)
    return "/" + "/".join(kept)


def decoded_name(name: str) -> bytes:
    """The name of a parameter as a server reads it."""
    if _UNCHANGED(name):
        return name.encode()
    return unquote_to_bytes(name.replace("+", " "))


def canonical_component(text: str) -> str:
    """A name or value of the query, encoded as forms are.

    A semicolon stays apart from an encoded one, since some servers divide by it; and
    what has a percent sign that escapes nothing stays as it is.
    """
    if _UNCHANGED_FORM(text):
        return text
    if _LONE_PERCENT.search(text):
        return _in_upper_case(text)
    return ";".join(
        quote_plus(unquote_to_bytes(piece.replace("+", " ")))
        for piece in text.split(";")
    )
