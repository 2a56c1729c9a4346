"""Writes what changed in sessions: at once, in order, and again after an outage.

A response may also set a cookie as it is known to be. That changes nothing, unless
somebody else has changed the cookie meanwhile; so no page waits for it, and nothing is
sent: the next load shows whether it still is as it was set. Only where it is not, it is
set again, and there the server decides what came last.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.sessions import scripts
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.sessions.report import FOR_ALL
from scrapy_redis_state.worker.sessions.writes import Confirmation, Write, merged

if TYPE_CHECKING:
    from scrapy_redis_state.store.sessions import Changes, Cookie, Saved, Session
    from scrapy_redis_state.worker.sessions.entry import Entry
    from scrapy_redis_state.worker.sessions.report import SessionReport
    from scrapy_redis_state.worker.sessions.sender import Sender

CONFIRM_SECS = 5.0
"""What a response confirmed longer ago is not set again: the server remembers the
changes of so long (and some more) that may have come later."""


class SessionWriter:
    """The writes of one process.

    :param ttl: seconds that the server keeps a session that nobody uses
    :param learned: told of the session that an answer shows
    """

    def __init__(
        self,
        sender: Sender,
        report: SessionReport,
        ttl: int,
        learned: Callable[[Entry, Session], None],
    ) -> None:
        self._sender = sender
        self._report = report
        self._ttl = ttl
        self._learned = learned
        self._writing: dict[Entry, None] = {}
        """Entries with writes."""

    def __len__(self) -> int:
        """How many sessions have changes that are not written."""
        return len(self._writing)

    @property
    def waiting(self) -> list[asyncio.Future[Saved | None]]:
        """For what is not written yet."""
        return [write.done for entry in self._writing for write in entry.writes]

    def write(self, entry: Entry, changes: Changes, epoch: str) -> Write:
        """Send changes; behind others that wait, they wait as well."""
        write = Write(changes, epoch, asyncio.get_running_loop().create_future())
        must_wait = any(not before.in_air for before in entry.writes)
        entry.writes.append(write)
        self._writing[entry] = None
        for key in write.keys:
            entry.confirmations.pop(key, None)
        if must_wait:
            write.settle(None)
        else:
            self._send(entry, write)
        return write

    def send_again(self) -> None:
        """Send what waits, as one write for each epoch, once nothing is in the air."""
        for entry in list(self._writing):
            if any(write.in_air for write in entry.writes):
                continue
            by_epoch: dict[str, list[Changes]] = {}
            for write in entry.writes:
                by_epoch.setdefault(write.epoch, []).append(write.changes)
            loop = asyncio.get_running_loop()
            entry.writes = [
                Write(merged(changes), epoch, loop.create_future())
                for epoch, changes in by_epoch.items()
            ]
            for write in entry.writes:
                self._send(entry, write)

    def give_up(self, entry: Entry) -> None:
        """Forget what could not be written; the cookie jar of its process has it."""
        for write in entry.writes:
            write.settle(None)
        entry.writes = []
        entry.confirmations.clear()
        self._writing.pop(entry, None)
        self._report.count("lost")

    def _send(self, entry: Entry, write: Write) -> None:
        def answered(answer: Any) -> None:
            if isinstance(answer, FOR_ALL):
                self._report.fails("written", str(answer))
                write.settle(None)
                return
            self._report.works("written")
            if write in entry.writes:  # not given up meanwhile
                entry.writes.remove(write)
            if not entry.writes:
                self._writing.pop(entry, None)
            if isinstance(answer, RedisStateError):
                self._report.tell("failed", entry.key, str(answer))
                self._report.count("lost")
                write.settle(None)
                return
            self._written(entry, answer)
            write.settle(answer)

        call = scripts.save(entry.key, write.changes, write.epoch, self._ttl)
        self._sender.send(call, answered)

    def _written(self, entry: Entry, saved: Saved) -> None:
        self._learned(entry, saved.session)
        self._report.count("stale" if saved.stale else "saved")
        for problem in saved.refused:
            self._report.tell("refused", entry.key, problem)

    # --- cookies that were set as they are -------------------------------------------

    def confirm(self, entry: Entry, cookies: Iterable[Cookie], epoch: str) -> None:
        """Have these cookies be what they are, also if others just changed them."""
        now, written = clock.now(), frozenset().union(*(w.keys for w in entry.writes))
        for cookie in cookies:
            known = entry.session.cookies.get(cookie.key)
            # What another program stored may have more to it than a jar has.
            as_stored = known if known and cookie.key not in written else cookie
            confirmation = Confirmation(as_stored, epoch, now)
            entry.confirmations[cookie.key] = confirmation

    def compare(self, entry: Entry, sent_at: float) -> None:
        """Set again what a load, sent at that time, shows to be different."""
        by_epoch: dict[str, list[Confirmation]] = {}
        now = clock.now()
        for key, one in list(entry.confirmations.items()):
            is_same = entry.session.cookies.get(key) == one.cookie
            if one.in_air or (is_same and one.at > sent_at):
                continue
            if is_same or now - one.at > CONFIRM_SECS:
                del entry.confirmations[key]
            else:
                by_epoch.setdefault(one.epoch, []).append(one)
        for epoch, some in by_epoch.items():
            self._set_again(entry, some, epoch)

    def _set_again(self, entry: Entry, some: list[Confirmation], epoch: str) -> None:
        def answered(answer: Any) -> None:
            for one in some:
                one.in_air = False
            if isinstance(answer, FOR_ALL):  # the next load will tell
                self._report.fails("written", str(answer))
                return
            self._report.works("written")
            for one in some:
                if entry.confirmations.get(one.cookie.key) is one:
                    del entry.confirmations[one.cookie.key]
            if isinstance(answer, RedisStateError):
                self._report.tell("failed", entry.key, str(answer))
            else:
                self._written(entry, answer)

        now = clock.now()
        ages = [(one.cookie, math.ceil((now - one.at) * 1000)) for one in some]
        for one in some:
            one.in_air = True
        call = scripts.confirm(entry.key, ages, epoch, self._ttl)
        self._sender.send(call, answered)
