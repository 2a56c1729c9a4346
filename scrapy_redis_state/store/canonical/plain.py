"""URLs that need no work: most are, and finding that out takes a tenth of the time.

What is let through here is what :func:`w3lib.url.safe_url_string` and the canonical
form leave as it is. Anything else may be so too, and takes the long way.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PATH = r"/[A-Za-z0-9_.~,=+:@!()*/-]*"
_START = r"(https?://[a-z0-9.:-]+)"

_without_query = re.compile(_START + f"({_PATH})").fullmatch
_with_query = re.compile(
    _START + f"({_PATH})" + r"(?:\?[A-Za-z0-9_.~=&+:@,!()*/-]+)?"
).fullmatch

_LABEL = r"(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label begins with a letter, so that it is no address of numbers.
_LAST = r"(?!xn--)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PORT = r"(?::(?!80$|443$)[1-9][0-9]{1,3})?"
_plain_start = re.compile(rf"https?://(?:{_LABEL}\.)*{_LAST}{_PORT}").fullmatch
_LONGEST_START = 200


def is_plain(url: str) -> bool:
    """Whether a URL is its own canonical form, under any rules: it has no query."""
    return _is_plain(_without_query(url))


def needs_no_quoting(url: str) -> bool:
    """Whether a URL is one that a request takes as it is."""
    return _is_plain(_with_query(url))


def _is_plain(parts: re.Match[str] | None) -> bool:
    # Segments that begin with a dot may be "." or "..", which are followed.
    return parts is not None and "/." not in parts[2] and _starts_plain(parts[1])


@lru_cache(1024)
def _starts_plain(start: str) -> bool:
    """Whether scheme, host and port are written as they are compared."""
    return len(start) <= _LONGEST_START and _plain_start(start) is not None
