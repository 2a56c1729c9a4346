"""One session, as far as it is known in this process, and what is to become of it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_redis_state.store.sessions import Session, Stamp
from scrapy_redis_state.worker import clock

if TYPE_CHECKING:
    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.store.sessions import CookieKey
    from scrapy_redis_state.worker.sessions.sender import Sending
    from scrapy_redis_state.worker.sessions.writes import Confirmation, Write

MAX_AGE_SECS = 1.0
"""What was loaded longer ago is loaded anew before it is used."""
IN_USE_SECS = 30.0
"""A session is in use for so long after it was used last."""


@dataclass(slots=True, eq=False)
class Load:
    """A load that is not answered yet."""

    done: asyncio.Future[None]
    sending: Sending | None = None

    def was_sent_after(self, time: float) -> bool:
        return self.sending is not None and self.sending.sent_at >= time


@dataclass(slots=True, eq=False)
class Entry:
    """One session."""

    key: SessionKey
    session: Session = field(init=False)
    loaded_at: float = -math.inf
    """When the last load that was answered was sent, by the worker's clock."""
    used_since: float = math.inf
    used_at: float = -math.inf
    """When pages asked for it, with no long pause between."""
    touched_at: float = -math.inf
    """The same, or when it was written."""
    served: bool = False
    """It was used again since it was loaded."""
    load: Load | None = None
    writes: list[Write] = field(default_factory=list)
    """In the air, or waiting to be sent again; in order."""
    confirmations: dict[CookieKey, Confirmation] = field(default_factory=dict)
    """To be compared with what a later load shows."""
    unmet: Stamp = field(default_factory=Stamp)
    """A state that somebody claims to know, and that a later load did not show."""

    def __post_init__(self) -> None:
        self.session = Session(self.key.site, self.key.name)

    @property
    def unsaved(self) -> frozenset[CookieKey]:
        """The cookies that were set or deleted here, and may not be so at the store."""
        return frozenset(self.confirmations).union(*(w.keys for w in self.writes))

    @property
    def is_idle(self) -> bool:
        """Nothing is lost with it."""
        return not self.writes and not self.confirmations and self.load is None

    def satisfies(self, at_least: Stamp | None) -> bool:
        return at_least is None or max(self.session.stamp, self.unmet) >= at_least

    def note_use(self) -> None:
        now = clock.now()
        if now - self.used_at > IN_USE_SECS:
            self.used_since = now
        self.used_at = now

    def wants_refresh(self, now: float) -> bool:
        """Whether it will be used again, as far as can be told.

        A crawl of many sites with a page or two of each must not load all of them again
        and again.
        """
        is_regular = self.used_at - self.used_since >= MAX_AGE_SECS
        return (
            self.served
            or bool(self.confirmations)
            or (is_regular and now - self.used_at < IN_USE_SECS)
        )

    def is_good(self, at_least: Stamp | None) -> bool:
        fresh = clock.now() - self.loaded_at < MAX_AGE_SECS
        return fresh and self.satisfies(at_least)

    def drop(self) -> None:
        """Have it loaded anew before it is used again."""
        self.loaded_at = -math.inf
        self.unmet = Stamp()
