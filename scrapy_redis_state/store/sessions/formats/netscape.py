"""The file ``cookies.txt``, as curl, wget and :mod:`http.cookiejar` have it.

It has no place for ``sameSite``, for fractions of a second and for partition keys: the
first two are lost, and partitioned cookies are left out, as they would be ordinary ones
to whoever reads the file.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from scrapy_redis_state.store.sessions.cookie import Cookie, NotACookie
from scrapy_redis_state.store.sessions.formats.imported import Imported, checked

HEADER = "# Netscape HTTP Cookie File\n"
_HTTP_ONLY = "#HttpOnly_"
_COLUMNS = 7


class BrokenLine(ValueError):
    """A line that is none of a ``cookies.txt``, in a file that is one otherwise."""


def read_cookies_txt(text: str) -> Imported:
    """Cookies of a file; expired ones are left out.

    :raises BrokenLine: if a line is none of such a file, and one before it is
    :raises ValueError: if none is
    """
    now = time.time()
    found, skipped = [], []
    is_one = text.startswith(HEADER.rstrip())
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip() or (line[0] == "#" and not line.startswith(_HTTP_ONLY)):
            continue
        try:
            cookie = checked(_read_line(line))
        except NotACookie as error:
            skipped.append(f"line {number} {error}")
        except ValueError as error:
            raise BrokenLine(f"line {number} {error}") if is_one else error from None
        else:
            found += [] if cookie.is_expired(now) else [cookie]
        is_one = True
    return Imported(tuple(found), skipped=tuple(skipped))


def _read_line(line: str) -> Cookie:
    columns = line.removeprefix(_HTTP_ONLY).split("\t")
    if len(columns) == _COLUMNS - 1:  # editors remove the tab before an empty value
        columns.append("")
    if len(columns) != _COLUMNS:
        raise ValueError(
            "has not the seven columns of a cookies.txt, with tabs between"
        )
    domain, subdomains, path, secure, expires, name, value = columns
    if not name and not value:
        raise NotACookie("has neither name nor value")
    domain = domain.lower().lstrip(".")
    return Cookie(
        name=name or value,
        # A cookie without a name is here what http.cookiejar calls one without a value.
        value=value if name else None,
        domain=f".{domain}" if subdomains.upper() == "TRUE" else domain,
        path=path or "/",
        expires=_read_expires(expires),
        secure=secure.upper() == "TRUE",
        http_only=line.startswith(_HTTP_ONLY),
    )


def _read_expires(text: str) -> float | None:
    if text in ("", "0", "-1"):
        return None
    try:
        return float(text)
    except ValueError:
        raise NotACookie("expires at what is no time") from None


def write_cookies_txt(cookies: Iterable[Cookie], now: float | None = None) -> str:
    """The text of a file with these; expired and partitioned ones are left out."""
    now = time.time() if now is None else now
    lines = [
        _write_line(cookie)
        for cookie in cookies
        if not cookie.is_expired(now) and _has_a_place(cookie)
    ]
    return HEADER + "".join(lines)


def _write_line(cookie: Cookie) -> str:
    columns = (
        (_HTTP_ONLY if cookie.http_only else "") + cookie.domain,
        "FALSE" if cookie.host_only else "TRUE",
        cookie.path,
        "TRUE" if cookie.secure else "FALSE",
        "" if cookie.expires is None else str(int(cookie.expires)),
        "" if cookie.value is None else cookie.name,
        cookie.name if cookie.value is None else cookie.value,
    )
    return "\t".join(columns) + "\n"


def _has_a_place(cookie: Cookie) -> bool:
    texts = (cookie.domain, cookie.path, cookie.name, cookie.value or "")
    fits = not any("\t" in text or "\n" in text for text in texts)
    return cookie.partition_key is None and fits
