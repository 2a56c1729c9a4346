"""Which query parameters are left out of fingerprints."""

# ruff: noqa: TRY004 - a wrong type is a wrong value: one class of error for settings

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

from w3lib.url import safe_url_string

from scrapy_redis_state.store.canonical.parts import (
    canonical_authority,
    canonical_component,
    decoded_name,
)
from scrapy_redis_state.store.canonical.tracking import TRACKING_NAMES

EVERYWHERE = "*"
"""The key, among those of sites, of what holds on all sites."""

LIST = "tracking"
"""The entry that stands for the list of tracking parameters."""

_DESCRIPTION_LENGTH = 200
_NAMES_REMEMBERED = 4096
_SITE = re.compile(r"[\w-][\w.-]*|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True)
class StripRules:
    """Names and globs per site; the last entry that fits a parameter decides.

    An entry leaves parameters out, or, with ``!`` before it, keeps them. ``"tracking"``
    stands for the list of tracking parameters.
    """

    sites: tuple[tuple[str, tuple[str, ...]], ...]
    """Entries by site, in the order in which they are looked at."""

    @classmethod
    def of(cls, value: object) -> StripRules:
        """Read a list of entries, or a dict of such lists by site (``"*"``: all).

        :raises ValueError: with what to do instead
        """
        if not isinstance(value, Mapping):
            return cls(((EVERYWHERE, _entries(value)),))
        sites: dict[str, tuple[str, ...]] = {}
        for name, entries in value.items():
            site = _site(name)
            if site in sites:
                raise ValueError(f"has the site {site!r} twice: name it once")
            sites[site] = _entries(entries)
        # What is more specific comes later, and so decides.
        return cls(tuple(sorted(sites.items(), key=_specificity)))

    def for_host(self, host: str) -> tuple[str, ...]:
        """All entries that hold on *host*: of the host and of domains it is in."""
        return tuple(
            entry
            for site, entries in self.sites
            if site in (EVERYWHERE, host) or host.endswith(f".{site}")
            for entry in entries
        )

    def describe(self) -> str:
        """A short text, different for different rules."""
        sites: object = dict(self.sites)
        if [site for site, _ in self.sites] == [EVERYWHERE]:
            sites = self.sites[0][1]
        text = json.dumps(sites, ensure_ascii=False)
        if len(text) <= _DESCRIPTION_LENGTH:
            return text
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{text[:_DESCRIPTION_LENGTH]}... ({digest})"


NameReader: TypeAlias = Callable[[str], "tuple[bytes, str] | None"]
"""Reads the name of a parameter: as a server reads it, and as a canonical URL has it.
None: the parameter is left out."""


def name_reader(entries: Sequence[str]) -> NameReader:
    """Make a function that reads names by these entries; it remembers many."""
    tests = [_test(entry) for entry in reversed(entries)]

    @lru_cache(_NAMES_REMEMBERED)
    def read(name: str) -> tuple[bytes, str] | None:
        decoded = decoded_name(name)
        text = decoded.decode(errors="replace")
        if next((strips for fits, strips in tests if fits(text)), False):
            return None
        return decoded, canonical_component(name)

    return read


def _test(entry: str) -> tuple[Callable[[str], object], bool]:
    pattern = entry.removeprefix("!")
    names = TRACKING_NAMES if pattern == LIST else (pattern,)
    return re.compile("|".join(map(translate, names))).match, pattern == entry


def _entries(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError("must have a list of names or globs, such as ['tracking']")
    for entry in value:
        if not isinstance(entry, str) or not entry.removeprefix("!").strip():
            raise ValueError(
                f"has the entry {entry!r}: use names or globs of parameters"
            )
        if re.search("[&=]", entry):
            raise ValueError(f"has the entry {entry!r}: use the parameter's name alone")
    return tuple(value)


def _site(name: object) -> str:
    if name == EVERYWHERE:
        return EVERYWHERE
    if not isinstance(name, str) or not _SITE.fullmatch(name):
        raise ValueError(
            f"has the site {name!r}: use a host name such as shop.example, which stands"
            " for its subdomains too, or '*' for all sites"
        )
    authority = urlsplit(safe_url_string(f"http://{name}/")).netloc
    return canonical_authority(authority, "http")[1]


def _specificity(item: tuple[str, tuple[str, ...]]) -> tuple[int, str]:
    site = item[0]
    return (0 if site == EVERYWHERE else site.count(".") + 1, site)
