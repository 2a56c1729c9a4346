"""Checks that settings share: what a value must be, and how it is read.

A value comes from Python (``settings.py``, ``custom_settings``) as an object, or from
``-s NAME=VALUE`` and from environments as a string. Both are read strictly: what looks
like a mistake is refused, not guessed at.
"""

# ruff: noqa: TRY004 - a wrong type is a wrong value: one class of error for settings

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object
from scrapy.utils.project import data_path

from scrapy_redis_state.store.canonical import StripRules
from scrapy_redis_state.store.url import in_directory, parse

EMBEDDED_DIRECTORY = "redis-state"
"""Where in ``.scrapy`` the embedded server keeps its files."""

TEN_YEARS_SECS = 315_360_000
"""A longer time is a mistake, and would overflow somewhere."""

MOST_WHOLE = 2**31 - 1
"""A larger whole number is a mistake."""

PRIORITY_LIMIT = 2**31
"""Priorities added by a rule stay below this: sums remain exact in a sorted set."""

PriorityRules = tuple[tuple[re.Pattern[str], int], ...]


@dataclass(frozen=True)
class Check:
    """What a setting may be."""

    takes: str
    """Completes "must be ..."; also the documentation's word for the type."""
    read: Callable[[object], Any]
    """Return the value to use. :raises ValueError: with what to do instead."""


def boolean() -> Check:
    """A bool, or what Scrapy takes for one."""
    takes = "True or False"

    def read(value: object) -> bool:
        text = str(value).lower() if isinstance(value, (bool, int, str)) else ""
        if text not in ("true", "false", "1", "0"):
            raise ValueError(f"must be {takes}")
        return text in ("true", "1")

    return Check(takes, read)


def whole(least: int, most: int | None = None) -> Check:
    """An int, or its digits."""
    limit = f"at least {least}" if most is None else f"from {least} to {most}"
    takes = f"a whole number, {limit}"

    def read(value: object) -> int:
        number = _whole(value)
        if number is None or not least <= number <= (most or number):
            raise ValueError(f"must be {takes}")
        if number > MOST_WHOLE:
            raise ValueError(f"must be {takes} and at most {MOST_WHOLE}")
        return number

    return Check(takes, read)


def port() -> Check:
    """A port of this machine, or None."""
    most = 65_535
    takes = f"a whole number from 0 to {most}"

    def read(value: object) -> int | None:
        if value is None or value == "":
            return None
        number = _whole(value)
        if number is None or not 0 <= number <= most:
            raise ValueError(f"must be {takes}, or None")
        return number

    return Check(takes, read)


def address() -> Check:
    """An address of this machine, or a name of it."""
    takes = "an address of this machine"

    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[\w.:%-]+", value):
            raise ValueError(f"must be {takes}, such as 127.0.0.1 or 0.0.0.0")
        return value

    return Check(takes, read)


def seconds(least: float, most: float = TEN_YEARS_SECS, because: str = "") -> Check:
    """A number of seconds, fractions allowed."""
    limit = (
        f"from {least:g} to {most:g}"
        if most < TEN_YEARS_SECS
        else f"at least {least:g}"
    )
    takes = f"a number of seconds, {limit}"
    reason = f" ({because})" if because else ""

    def read(value: object) -> float:
        number = _decimal(value)
        if number is None or not least <= number <= most:
            raise ValueError(f"must be {takes}{reason}")
        return number

    return Check(takes, read)


def share(least: float, most: float) -> Check:
    """A part of one."""
    takes = f"a number from {least:g} to {most:g}"

    def read(value: object) -> float:
        try:
            number = float(value) if isinstance(value, (str, int, float)) else None
        except ValueError:
            number = None
        if isinstance(value, bool) or number is None or not least <= number <= most:
            raise ValueError(f"must be {takes}")
        return number

    return Check(takes, read)


def one_of(*choices: str) -> Check:
    """One of some words."""
    takes = " or ".join(repr(choice) for choice in choices)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"must be {takes}")
        return value

    return Check(takes, read)


def key_part(what: str) -> Check:
    """A text that becomes a part of key names."""
    takes = f"{what} without braces and control characters"

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("must be a text")
        refuse_key_part(value)
        return value

    return Check(takes, read)


def key_templates() -> Check:
    """Names of keys in Redis, with names to be filled in."""
    takes = "a list of key names (in strings as JSON, or separated by commas)"

    def read(value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            value = _json_or_words(value, takes)
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be {takes}")
        for one in value:
            if not isinstance(one, str) or not one.strip():
                raise ValueError(f"must be {takes}; {one!r} is none")
            unknown = re.search(r"%(?!\((?:name|bot)\)s)", one)
            if unknown:
                raise ValueError(
                    f"has {one!r}, in which only %(name)s and %(bot)s are filled in"
                )
        if len(set(value)) < len(value):
            raise ValueError("names a key twice: name each once")
        return tuple(value)

    return Check(takes, read)


def refuse_key_part(text: str) -> None:
    """:raises ValueError: if a text cannot be a part of a key name."""
    if "{" in text or "}" in text:
        # They are the hash tag that keeps all keys of a crawl on one cluster node.
        raise ValueError("contains { or }: use other characters")
    if not text.isprintable():
        raise ValueError("contains control characters: use printable ones")


def server_urls() -> Check:
    """A URL the store can connect to, or several, of which each crawl uses one."""
    takes = (
        "a URL, or a list of URLs (in strings as JSON), over which crawls are spread"
    )

    def read(value: object) -> tuple[str, ...]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"must be {takes}") from None
        if isinstance(value, str):
            return (_server_url(value),)
        if not isinstance(value, (list, tuple)) or not value:
            raise ValueError("must be a URL, such as redis://localhost:6379/0")
        return _different_servers(value)

    return Check(takes, read)


def _different_servers(values: Sequence[object]) -> tuple[str, ...]:
    urls: list[str] = []
    places: list[str] = []
    for index, value in enumerate(values, 1):
        try:
            if not isinstance(value, str):
                raise ValueError("must be a text")  # noqa: TRY301 - as those of parse
            urls.append(_server_url(value))
        except ValueError as error:
            raise ValueError(f"URL {index} {error}") from None
        place = parse(urls[-1]).place
        if place in places:
            raise ValueError(
                f"URLs {places.index(place) + 1} and {index} are the same database:"
                " name each once"
            )
        places.append(place)
    return tuple(urls)


def _server_url(url: str) -> str:
    address = parse(url)
    if address.scheme == "embedded" and not address.options["directory"]:
        return _in_project(url)
    return url


def _in_project(url: str) -> str:
    """``embedded:`` with a directory among the project's data (``.scrapy``)."""
    try:
        directory = Path(data_path(EMBEDDED_DIRECTORY)).absolute()
    except (NotConfigured, OSError) as error:
        raise ValueError(
            f"has no place for the project's data ({error}): name a directory, "
            "embedded:/path/to/directory"
        ) from None
    return in_directory(url, str(directory))


def proxies() -> Check:
    """A dict of names and proxy URLs, or such a dict as JSON."""
    takes = "a dict of proxy labels and their URLs, in strings as JSON"

    def read(value: object) -> dict[str, str]:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"must be {takes}") from None
        if not isinstance(value, Mapping):
            raise ValueError(f"must be {takes}")
        for label, url in value.items():
            if not isinstance(label, str) or not label:
                raise ValueError("has a label that is no text: name each proxy")
            if not isinstance(url, str) or not is_proxy_url(url):
                raise ValueError(
                    f"needs for {label!r} a URL, such as http://user:password@host:port"
                )
        return dict(value)

    return Check(takes, read)


def is_proxy_url(text: str) -> bool:
    """Whether a text is the URL of a proxy rather than the label of one."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/]+/?", text) is not None


def strip_rules() -> Check:
    """A list of query parameters, or a dict of such lists by site."""
    takes = (
        "a list of names and globs, or a dict of such lists by site (in strings as"
        " JSON, or separated by commas)"
    )

    def read(value: object) -> StripRules:
        if isinstance(value, str):
            value = _json_or_words(value, takes)
        if not isinstance(value, (list, tuple, Mapping)):
            raise ValueError(f"must be {takes}")
        return StripRules.of(value)

    return Check(takes, read)


def _json_or_words(text: str, takes: str) -> object:
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError(f"must be {takes}") from None
    return [word.strip() for word in text.split(",")] if text.strip() else []


def fingerprinter() -> Check:
    """A fingerprinter that ours can stand before."""
    takes = "a class, or the path of one"

    def read(value: object) -> str | type:
        if not isinstance(value, (str, type)):
            raise ValueError(f"must be {takes}")
        try:
            cls = load_object(value)
        except (ImportError, NameError, ValueError) as error:
            raise ValueError(f"cannot be loaded ({error}): name a class") from None
        if getattr(cls, "canonicalizes_urls", False):
            raise ValueError(
                "is the fingerprinter that needs another to hand requests to: name the"
                " project's own, or remove the setting"
            )
        return value

    return Check(takes, read)


def session_provider() -> Check:
    """A class that can make a session anew."""
    takes = "a class with renew(), such as a SessionProvider, or the path of one"

    def read(value: object) -> type | None:
        if value is None or value == "":
            return None
        if not isinstance(value, (str, type)):
            raise ValueError(f"must be {takes}")
        try:
            cls = load_object(value)
        except (ImportError, NameError, ValueError) as error:
            raise ValueError(f"cannot be loaded ({error}): name a class") from None
        if not isinstance(cls, type) or not callable(getattr(cls, "renew", None)):
            raise ValueError(f"must be {takes}")
        return cls

    return Check(takes, read)


def priority_rules() -> Check:
    """A list of (regular expression, number) pairs, or such a list as JSON."""
    takes = "a list of (URL regex, priority added) pairs, in strings as JSON"

    def read(value: object) -> PriorityRules:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"must be {takes}") from None
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be {takes}")
        return tuple(_rule(rule, index) for index, rule in enumerate(value, 1))

    return Check(takes, read)


def _rule(rule: object, index: int) -> tuple[re.Pattern[str], int]:
    if not isinstance(rule, (list, tuple)) or len(rule) != 2:  # noqa: PLR2004
        raise ValueError(f"rule {index} must be a (URL regex, priority added) pair")
    pattern, added = rule
    if not isinstance(added, int) or isinstance(added, bool):
        raise ValueError(f"rule {index} must add a whole number")
    if abs(added) >= PRIORITY_LIMIT:
        raise ValueError(f"rule {index} must add less than {PRIORITY_LIMIT}")
    if not isinstance(pattern, str):
        raise ValueError(f"rule {index} must begin with a URL regex (a text)")
    try:
        return re.compile(pattern), added
    except re.error as error:
        raise ValueError(f"rule {index} has an invalid regex: {error}") from None


def _whole(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None


def _decimal(value: object) -> float | None:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}(\.[0-9]*)?", value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None
