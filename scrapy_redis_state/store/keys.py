"""Every key in Redis: its name, its type, and how long it lives.

The only module that builds key names. The braces around the crawl id are the hash tag
of Redis Cluster: all keys of one crawl lie on one node, and so may be used together in
one script.

===============================  ====  ===============================================
key                              type  content
===============================  ====  ===============================================
``crawl:{<crawl>}``              HASH  generation, status, sequence of ids, crawl clock,
                                       settings that workers share, seeding, counters,
                                       samples of the last five minutes,
                                       version of what was seen (``seen_version``)
``frontier:{<crawl>}``           ZSET  request id -> priority; highest first
``requests:{<crawl>}``           HASH  request id -> head and encoded request
``seen:{<crawl>}:<epoch>``       SET   fingerprints (exact); or a Bloom filter (bloom)
``seen:{<crawl>}:<epoch>:<n>``   SET   64-bit hashes of fingerprints (packed)
``inflight:{<crawl>}``           ZSET  request id -> when it is looked at, crawl clock
``leases:{<crawl>}``             HASH  request id -> ``<worker>:<batch>``
``delayed:{<crawl>}``            ZSET  request id -> not before, server time
``suspects:{<crawl>}``           ZSET  request id -> priority; handed out alone
``dead:{<crawl>}``               ZSET  request id -> when it was given up, server time
``deadinfo:{<crawl>}``           HASH  request id -> request, reason, deliveries, worker
``seeds:{<crawl>}``              SET   start requests stored, until seeding is done
``workers:{<crawl>}``            ZSET  worker -> last beat, crawl clock
``replies:{<crawl>}``            HASH  worker -> last batch, the reply to it, what the
                                       worker holds and has done;
                                       ``<worker>:info`` -> host and process, as JSON
``sites:{<crawl>}``              HASH  site -> pages remembered, if that is limited:
                                       ``<epoch>:<count>,...``, 0 in place of the epoch
                                       of those with a time of their own
``revisits:{<crawl>}``           ZSET  fingerprint -> until when it is a duplicate, of
                                       requests with a time of their own, server time
``wake:{<crawl>}``               LIST  idle workers wait at it: each element wakes one
===============================  ====  ===============================================

Times are in milliseconds. No key has a time to live while the crawl goes on. When it is
finished all get ``REDIS_STATE_FINISHED_TTL_SECS``.

Sessions belong to no crawl, and each of their keys is used by itself:

=============================  ====  ==================================================
``sess:<site>``                HASH  a site's default session
``sess:<site>:<session>``      HASH  another session of it
=============================  ====  ==================================================

They live for ``REDIS_STATE_SESSION_TTL_SECS`` after they were used last (0: as long as
their cookies).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from scrapy_redis_state.store.seen import SeenKeys, SeenSet

FIRST_EPOCH = 1
"""Epoch of the seen set of a crawl that does not exist yet."""

_SESSION = "sess:"

# The order in which scripts get them; include/keys.lua gives them the same names.
_BEFORE_SEEN = ("crawl", "frontier", "requests")
_AFTER_SEEN = (
    "inflight",
    "leases",
    "delayed",
    "suspects",
    "dead",
    "deadinfo",
    "seeds",
    "workers",
    "replies",
    "sites",
    "revisits",
    "wake",
)

FIXED_KEYS = 1 + len(_BEFORE_SEEN) + len(_AFTER_SEEN)
"""How many keys every script gets; after them come those of the seen set."""


@dataclass(frozen=True, slots=True)
class CrawlKeys:
    """The keys of one crawl.

    :param crawl: the crawl id
    :param prefix: put before every key
    :param seen_set: how it remembers what was seen
    :raises ValueError: for braces, which would change the hash tag
    """

    crawl: str
    prefix: str = ""
    seen_set: SeenSet = field(default_factory=SeenSet)

    def __post_init__(self) -> None:
        if not self.crawl:
            raise ValueError("The crawl id is empty: name the crawl.")
        for name, value in (("crawl id", self.crawl), ("key prefix", self.prefix)):
            if "{" in value or "}" in value:
                raise ValueError(
                    f"The {name} {value!r} contains a brace, which Redis Cluster gives"
                    " a meaning of its own in keys: leave braces out."
                )

    @classmethod
    def parse(cls, key: str) -> CrawlKeys | None:
        """The crawl whose hash a key is; None if it is not one of a crawl.

        Other keys may look the same.
        """
        found = re.fullmatch(r"([^{}]*)crawl:\{([^{}]+)\}", key, re.DOTALL)
        return cls(found[2], found[1]) if found else None

    @staticmethod
    def pattern(prefix: str | None = None) -> str:
        """What SCAN matches for the hashes of crawls; None: under any prefix."""
        start = "*" if prefix is None else _escaped(prefix)
        return start + "crawl:{*}"

    def named(self, name: str) -> str:
        """The key called *name* in the table above, such as ``frontier``."""
        return f"{self.prefix}{name}:{{{self.crawl}}}"

    def seen(self, epoch: int) -> str:
        """The seen set of an epoch."""
        return f"{self.named('seen')}:{epoch}"

    def shard(self, epoch: int, number: int) -> str:
        """One of the many sets of a packed seen set."""
        return f"{self.seen(epoch)}:{number}"

    def of_seen_set(self, epoch: int) -> SeenKeys:
        """What more a script needs for the fingerprints of one call."""
        return SeenKeys(self.seen_set, self.named("seen"), epoch, FIXED_KEYS + 1)

    @property
    def of_any_epoch(self) -> list[str]:
        """The keys of a script that does not touch the seen set."""
        return self.for_script(FIRST_EPOCH)

    def for_script(self, epoch: int) -> list[str]:
        """The keys of every script, in the order that it expects."""
        return [
            *(self.named(name) for name in _BEFORE_SEEN),
            self.seen(epoch),
            *(self.named(name) for name in _AFTER_SEEN),
        ]


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Which session, and its key.

    :param site: from :func:`.sessions.site.site_of`
    :param name: from :func:`.sessions.names.session_name`; empty: the default session
    :param prefix: put before every key
    """

    site: str
    name: str = ""
    prefix: str = ""

    def at(self, site: str) -> SessionKey:
        """The session of the same name of another site."""
        return SessionKey(site, self.name, self.prefix)

    def __str__(self) -> str:
        # Brackets, since colons of an address could be those before a name.
        site = f"[{self.site}]" if ":" in self.site else self.site
        name = f":{self.name}" if self.name else ""
        return f"{self.prefix}{_SESSION}{site}{name}"

    @classmethod
    def parse(cls, key: str, prefix: str = "") -> SessionKey | None:
        """Read a key; None if it is not one of a session."""
        start = prefix + _SESSION
        if not key.startswith(start):
            return None
        text = key[len(start) :]
        if text.startswith("["):
            site, closed, rest = text[1:].partition("]")
            if not closed or (rest and rest[0] != ":"):
                return None
            return cls(site, rest[1:], prefix)
        site, _, name = text.partition(":")
        return cls(site, name, prefix)

    @staticmethod
    def pattern(sessions: str, prefix: str = "") -> str:
        """What SCAN matches for *sessions*, a pattern for what follows ``sess:``."""
        return _escaped(prefix) + _SESSION + sessions


def _escaped(text: str) -> str:
    return re.sub(r"([\\*?\[\]^])", r"\\\1", text)
