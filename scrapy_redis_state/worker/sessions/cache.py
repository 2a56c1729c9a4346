"""What a worker knows of the shared sessions, so that no page waits for the server.

A session that is used is kept in memory and looked after by one task, which asks for
news of all of them in one round trip, again and again. Changes are sent at once.

An outage fails no page: what is known goes on being used, and changes wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.sessions import scripts as session_scripts
from scrapy_redis_state.worker import clock
from scrapy_redis_state.worker.sessions import entry as entries
from scrapy_redis_state.worker.sessions.entry import Entry, Load
from scrapy_redis_state.worker.sessions.report import FOR_ALL, SessionReport, Way
from scrapy_redis_state.worker.sessions.sender import RunTogether, Sender
from scrapy_redis_state.worker.sessions.writer import SessionWriter

if TYPE_CHECKING:
    from scrapy_redis_state.store.call import Call
    from scrapy_redis_state.store.keys import SessionKey
    from scrapy_redis_state.store.sessions import (
        Changes,
        Cookie,
        CookieKey,
        Saved,
        Session,
        Stamp,
    )

logger = logging.getLogger(__name__)

REFRESH_SECS = 0.8
"""How often the sessions in use are loaded in the background: so early that they never
get too old meanwhile."""
REFRESHED = 500
"""Sessions refreshed at a time; of more, the ones used last."""
PATIENCE_SECS = 1.0
"""How long a page waits for the server, once; then none does until it answers."""
CLOSE_PATIENCE_SECS = 5.0
"""How long changes that are not written yet hold up the end."""
LIMIT = 10_000
"""Sessions kept in memory."""
_LOOKED_AT = 20
"""Sessions looked at when there are too many."""


class SessionCache:
    """The sessions that one process uses.

    :param run: sends calls in order, and returns for each its reply or its error
    :param ttl_secs: how long the server keeps a session that nobody uses; 0: as long as
        its cookies
    :param limit: how many sessions are kept in memory
    :param count: told what statistics count: ``loaded``, ``saved``, ``stale``,
        ``refused``, ``unreadable``, ``failed``, ``lost``
    :param level: at which to log an outage, which others of this process may log too
    """

    def __init__(
        self,
        run: RunTogether,
        ttl_secs: float,
        *,
        limit: int = LIMIT,
        count: Callable[[str], None] = lambda _: None,
        level: Callable[[], int] = lambda: logging.WARNING,
    ) -> None:
        self._sender = Sender(run)
        self._ttl = math.ceil(ttl_secs)
        self._limit = limit
        self._report = SessionReport(count, level)
        self._writer = SessionWriter(
            self._sender, self._report, self._ttl, self._learned
        )
        self._entries: OrderedDict[SessionKey, Entry] = OrderedDict()
        self._refresher: asyncio.Task[None] | None = None
        self._closed = False
        self.has_known = False
        """Some session was known at some time."""

    def __len__(self) -> int:
        return len(self._entries)

    # --- what is asked of it ---------------------------------------------------------

    async def get(self, key: SessionKey, at_least: Stamp | None = None) -> Session:
        """The session: not older than a second, nor than the state *at_least*.

        While the server does not answer, what was known last, or an empty session.
        """
        entry = self._use(key)
        entry.note_use()
        asked_at = entry.used_at
        entry.served = entry.is_good(at_least)
        # A load that is under way may be older than what is asked for.
        for _ in range(2):
            if entry.is_good(at_least) or self._closed:
                break
            load = self._load(entry)
            is_away = self._report.is_failing("read")
            if is_away or not await self._wait(load.done, "read"):
                break
            if load.was_sent_after(asked_at) and not entry.satisfies(at_least):
                assert at_least is not None
                entry.unmet = at_least
        return entry.session

    def expect(self, key: SessionKey) -> None:
        """Have the session loaded: it is going to be asked for."""
        if not self._closed:
            self._load(self._use(key))

    async def save(
        self, key: SessionKey, changes: Changes, epoch: str = ""
    ) -> Saved | None:
        """Write changes.

        :param epoch: of the session that was known when the request was sent that made
            them; empty: none was
        :return: what became of them; None if the server does not answer: then they are
            kept and sent again
        """
        if self._closed:
            return None
        write = self._writer.write(self._use(key), changes, epoch)
        if write.in_air and not self._report.is_failing("written"):
            await self._wait(write.done, "written")
        return write.done.result() if write.done.done() else None

    def confirm(
        self, key: SessionKey, cookies: Iterable[Cookie], epoch: str = ""
    ) -> None:
        """A response set these as they are known to be.

        Whoever changed one of them before that, and is not known yet, did so in vain.
        """
        if not self._closed:
            self._writer.confirm(self._use(key), cookies, epoch)

    def known(self, key: SessionKey) -> Stamp | None:
        """Which state of the session is known here, if there is one."""
        entry = self._entries.get(key)
        return entry.session.stamp if entry and entry.session.epoch else None

    def unsaved(self, key: SessionKey) -> frozenset[CookieKey]:
        """The cookies that were set or deleted here, and may not be so at the store."""
        entry = self._entries.get(key)
        return entry.unsaved if entry else frozenset()

    def peek(self, key: SessionKey) -> Session | None:
        """What is known of the session, however old; None if it was not used lately."""
        entry = self._entries.get(key)
        return entry.session if entry else None

    async def run(self, key: SessionKey, call: Call[Any]) -> Any:
        """Run another call about a session, after all that were made before it.

        The session that it answers with is what is known from now on.

        :raises RedisStateError: if it is not answered, or with an error
        """
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(answer: Any) -> None:
            session = getattr(answer, "session", None)
            if session is not None and not self._closed:
                entry = self._use(key)
                entry.loaded_at = sending.sent_at
                self._learned(entry, session)
            if not done.done():
                done.set_result(answer)

        sending = self._sender.send(call, answered)
        answer = await done
        if isinstance(answer, RedisStateError):
            raise answer
        return answer

    def drop(self) -> None:
        """Load everything anew before it is used again."""
        for entry in self._entries.values():
            entry.drop()

    async def close(self) -> None:
        """Write what is not written yet, and stop."""
        deadline = clock.now() + CLOSE_PATIENCE_SECS
        while not self._report.is_failing() and (left := deadline - clock.now()) > 0:
            waiting: list[asyncio.Future[Any]] = [
                *(done for done in self._writer.waiting if not done.done()),
                *(
                    self._load(entry).done
                    for entry in self._entries.values()
                    if entry.confirmations
                ),
            ]
            if not waiting:
                break
            await asyncio.wait(waiting, timeout=left)
        self._closed = True
        if self._writer:
            logger.warning(
                "Changes of %(lost)d sessions are lost: the server does not answer",
                {"lost": len(self._writer)},
            )
        task, self._refresher = self._refresher, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._sender.close()

    # --- entries ---------------------------------------------------------------------

    def _use(self, key: SessionKey) -> Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(key)
        self._entries.move_to_end(key)
        self._forget_some()
        entry.touched_at = clock.now()
        if self._refresher is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._refresher = loop.create_task(self._refresh())
        return entry

    def _forget_some(self) -> None:
        """Forget sessions used long ago, but not what is still to be written."""
        excess = len(self._entries) - self._limit
        if excess <= 0:
            return
        # Never the one that is about to be used.
        oldest = islice(self._entries.items(), min(_LOOKED_AT, len(self._entries) - 1))
        idle = [key for key, entry in oldest if entry.is_idle]
        for key in idle[:excess]:
            del self._entries[key]
        if len(self._entries) > 2 * self._limit:
            # Memory must not grow for as long as an outage lasts.
            _, entry = self._entries.popitem(last=False)
            self._writer.give_up(entry)

    # --- reading ---------------------------------------------------------------------

    def _load(self, entry: Entry) -> Load:
        """Have it loaded; one call serves all who want it."""
        if entry.load is not None:
            return entry.load
        load = entry.load = Load(asyncio.get_running_loop().create_future())
        known = entry.session.stamp if entry.session.epoch else None

        def answered(answer: Any) -> None:
            entry.load = None
            load.done.set_result(None)
            if isinstance(answer, FOR_ALL):
                self._report.fails("read", str(answer))
                return
            self._report.works("read")
            assert load.sending is not None
            entry.loaded_at = load.sending.sent_at
            entry.served = False
            if isinstance(answer, RedisStateError):
                self._report.tell("failed", entry.key, str(answer))
                entry.confirmations.clear()  # or they would be asked for without end
                return
            self._report.count("loaded")
            if answer is not None:
                self._learned(entry, answer)
            self._writer.compare(entry, entry.loaded_at)

        call = session_scripts.load(entry.key, self._ttl, known)
        load.sending = self._sender.send(call, answered)
        return load

    def _learned(self, entry: Entry, session: Session) -> None:
        entry.session = session
        self.has_known |= bool(session.epoch)
        for problem in session.skipped:
            self._report.tell("unreadable", entry.key, problem)

    async def _wait(self, done: asyncio.Future[Any], way: Way) -> bool:
        """Wait for an answer; False when patience is over."""
        await asyncio.wait({done}, timeout=PATIENCE_SECS)
        if not done.done():
            self._report.fails(way, f"no answer within {PATIENCE_SECS:g} s")
        return done.done()

    async def _refresh(self) -> None:
        """Keep what is used fresh, and send again what waits, while there is either."""
        try:
            is_needed = True
            while is_needed:
                # First: what was just used was just loaded.
                await asyncio.sleep(REFRESH_SECS)
                is_needed = self._refresh_now(clock.now())
        finally:
            self._refresher = None

    def _refresh_now(self, now: float) -> bool:
        in_use = list(self._in_use(now))
        wanted = (entry for entry in in_use if entry.wants_refresh(now))
        for entry in islice(wanted, REFRESHED):
            self._load(entry)
        self._writer.send_again()
        return bool(in_use or self._writer)

    def _in_use(self, now: float) -> Iterator[Entry]:
        for entry in reversed(self._entries.values()):
            if now - entry.touched_at >= entries.IN_USE_SECS:
                return
            yield entry
