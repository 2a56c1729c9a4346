"""Dead letters: requests that were given up, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from scrapy_redis_state.codec import NotDecodable, UnknownCode, describe_payload
from scrapy_redis_state.codec.renew import without_meta

RETRY_META = ("retry_times",)
"""What Scrapy counts retries by."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One request that was given up."""

    id: str
    given_up: str
    """When, as the server said it: tells it from a later letter with the same id."""
    reason: str = ""
    deliveries: int = 0
    """How many of them did not end well."""
    priority: int = 0
    worker: str = ""
    """The last that had it; empty: none."""
    payload: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, id: str, given_up: bytes | str, packed: bytes) -> DeadLetter:
        """Read what is stored; where that is garbage the letter says so."""
        when = given_up.decode() if isinstance(given_up, bytes) else given_up
        try:
            info = msgpack.unpackb(packed, raw=True)
            payload = info[b"payload"]
            return cls(
                id,
                when,
                reason=info[b"reason"].decode(errors="replace"),
                deliveries=int(info[b"deliveries"]),
                priority=int(info[b"priority"]),
                worker=info[b"worker"].decode(errors="replace"),
                payload=payload if isinstance(payload, bytes) else b"",
            )
        except Exception:  # noqa: BLE001 - anybody may have written the bytes
            return cls(id, when, reason="what was kept of it cannot be read")

    @property
    def given_up_at(self) -> float:
        """Unix time, of the server."""
        return float(self.given_up) / 1000

    @property
    def fields(self) -> dict[str, Any]:
        """The request by name of field; empty if it cannot be read."""
        try:
            return describe_payload(self.payload)
        except (NotDecodable, UnknownCode):
            return {}

    @property
    def url(self) -> str:
        """The request's URL; empty if it cannot be read."""
        return str(self.fields.get("url", ""))

    def renewed(self) -> bytes:
        """The request as it was before it was tried.

        :raises ValueError: if no worker could run it
        """
        try:
            if not describe_payload(self.payload)["complete"]:
                raise ValueError("only a description of the request could be kept")
            return without_meta(self.payload, RETRY_META)
        except (NotDecodable, UnknownCode) as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters; all of them, where nothing is said."""

    ids: Collection[str] = ()
    reason: str = ""
    """A part of the reason."""
    match: re.Pattern[str] | None = None
    """Found in the URL."""

    def takes(self, letter: DeadLetter) -> bool:
        """Whether *letter* is meant."""
        if self.ids and letter.id not in self.ids:
            return False
        if self.reason not in letter.reason:
            return False
        return self.match is None or self.match.search(letter.url) is not None


def dead_filter(
    ids: Collection[str], reason: str, match: str | re.Pattern[str] | None
) -> DeadFilter:
    """The filter with *match* compiled."""
    return DeadFilter(ids, reason, None if match is None else re.compile(match))


@dataclass(frozen=True, slots=True)
class Requeued:
    """What became of dead letters that were to be tried again."""

    count: int
    """How many are back in the frontier."""
    skipped: Sequence[str]
    """Why others are not, one line each."""
