"""Making a session anew when it is no good any more: once in the whole fleet.

Whoever finds that out claims the renewal. One gets it, and makes it in a task of its
own with signs of life to the server; the others are told to wait. A process that dies
is replaced by whoever claims when its lease is over.

A session that was made anew is not known to be good before a page was. If the first
page that is judged is no good either, the renewal counts as one that failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions import (
    Changes,
    Claimed,
    Renewal,
    Saved,
    renewal_scripts,
)
from scrapy_redis_state.worker import clock

logger = logging.getLogger(__name__)

LEASE_SECS = 30.0
"""A renewal without a sign of life for so long is somebody else's."""
MOST_FAILURES = 3
"""After so many in a row a session is given up."""
BACK_OFF_SECS = 1.0
"""Pause after a first failure; doubled by each further one."""
LONGEST_SECS = 300.0
"""A renewal that takes longer has failed."""
RELEASE_SECS = 3.0
"""How long a process that stops tries to leave its renewals to others."""
AGAIN_SECS = 1.0
"""Pause before the server is told again what it did not answer."""
_MOST_REASON = 300

Run: TypeAlias = Callable[[SessionKey, Call[Any]], Awaitable[Any]]
Renew: TypeAlias = Callable[[SessionKey, Any], Awaitable["Changes | None"]]
Counted = Literal["renewed", "renewal_failed"]


class Verdict(NamedTuple):
    """What is to be done about a session that is no good."""

    kind: Literal["yours", "busy", "renewed", "failed", "blamed"]
    """``yours``: this process has begun to renew it, because of what was judged.
    ``busy``: it will be good later. ``renewed``: it is another one already.
    ``failed``: it was given up. ``blamed``: it is good, and the page is not."""
    ms: int = 0
    """How long it may take, where that is known."""
    reason: str = ""


class RenewalError(Exception):
    """A renewal did not work; the text says why, without any value."""


@dataclass(frozen=True, slots=True)
class _Running:
    attempt: asyncio.Future[Changes | None]
    """The work of whoever knows how."""
    task: asyncio.Task[None]
    """What goes on beside it."""


class Renewals:
    """The renewals that one process makes.

    :param run: sends one call and returns its reply
    :param ttl_secs: how long the server keeps a session that nobody uses
    :param holder: a name that no other process has
    :param renew: given the session and ``because`` of :meth:`claim`, makes it anew;
        returns what it is from now on, or None where responses have made it
    :param count: told of ``renewed`` and ``renewal_failed``
    """

    def __init__(
        self,
        run: Run,
        ttl_secs: float,
        holder: str,
        renew: Renew,
        *,
        count: Callable[[Counted], None] = lambda _: None,
    ) -> None:
        self._run = run
        self._ttl = math.ceil(ttl_secs)
        self._holder = holder
        self._renew = renew
        self._count = count
        self._lease_secs = LEASE_SECS
        self._running: dict[SessionKey, _Running] = {}
        self._proofs: dict[tuple[SessionKey, str], asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self._closed = False

    def __len__(self) -> int:
        """How many are under way here."""
        return len(self._running)

    async def claim(
        self, key: SessionKey, epoch: str, because: Any = None, page: str = ""
    ) -> Verdict:
        """Have a session renewed that was judged to be no good, unless it has been.

        :param epoch: of the session as it was judged; empty: there was none
        :param because: handed on to whoever renews it
        :param page: what the page is called that was judged, if it was one; each has a
            session renewed once at most, as long as others are good
        """
        if self._closed or key in self._running:
            return Verdict("busy")
        call = renewal_scripts.claim(
            key,
            self._holder,
            epoch,
            ttl=self._ttl,
            lease_ms=_ms(self._lease_secs),
            most_failures=MOST_FAILURES,
            back_off_ms=_ms(BACK_OFF_SECS),
            page=page,
        )
        try:
            claimed: Claimed = await self._run(key, call)
        except Refused as error:
            return Verdict("failed", reason=str(error))
        except RedisStateError as error:
            self._tell_once(error)
            return Verdict("busy")
        if claimed.status == "disproved":
            return self._disproved(key, claimed)
        if claimed.status != "yours":
            return Verdict(claimed.status, claimed.ms, _why(claimed))
        if key in self._running:  # two claims of this process at the same time
            return Verdict("busy", claimed.ms)
        self._begin(key, because)
        return Verdict("yours", claimed.ms)

    def _begin(self, key: SessionKey, because: Any) -> None:
        attempt = asyncio.ensure_future(self._renew(key, because))
        task = asyncio.get_running_loop().create_task(self._make(key, attempt))
        self._running[key] = _Running(attempt, task)
        task.add_done_callback(lambda _: self._running.pop(key, None))
        if self._closed:
            attempt.cancel()

    def _disproved(self, key: SessionKey, claimed: Claimed) -> Verdict:
        renewal = claimed.session.renewal
        self._count_failure(key, renewal, "the next page was no good either")
        if renewal and renewal.failed:
            return Verdict("failed", reason=_why(claimed))
        return Verdict("busy", claimed.ms)

    def prove(self, key: SessionKey, epoch: str) -> None:
        """A page was good with the session of *epoch*, which is not known to be good.

        Nobody waits for it; if the server does not get it, the next good page will do.
        """
        if self._closed or (key, epoch) in self._proofs:
            return
        task = asyncio.ensure_future(self._prove(key, epoch))
        self._proofs[key, epoch] = task
        task.add_done_callback(lambda _: self._proofs.pop((key, epoch), None))

    async def _prove(self, key: SessionKey, epoch: str) -> None:
        with contextlib.suppress(RedisStateError):
            await self._run(key, renewal_scripts.proved(key, epoch, ttl=self._ttl))

    async def close(self) -> None:
        """Stop what is under way, and leave it to others at once."""
        self._closed = True
        if self._proofs:
            await asyncio.wait(set(self._proofs.values()), timeout=RELEASE_SECS)
        running = list(self._running.values())
        for one in running:
            one.attempt.cancel()
        tasks = {one.task for one in running}
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=RELEASE_SECS)
        for task in tasks:  # its attempt does not let itself be stopped
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=RELEASE_SECS)

    def _tell_once(self, error: RedisStateError) -> None:
        text = str(error)
        # An outage is told of by others.
        if not isinstance(error, Unavailable) and text not in self._told:
            self._told.add(text)
            logger.warning("Sessions cannot be renewed: %(error)s", {"error": text})

    # --- one renewal -----------------------------------------------------------------

    async def _make(
        self, key: SessionKey, attempt: asyncio.Future[Changes | None]
    ) -> None:
        started = clock.now()
        logger.info("Session %(key)s: renewal begun", {"key": key})
        try:
            await self._keep_alive(key, attempt)
            if attempt.cancelled() and self._closed:
                await self._release(key)
                return
            content = _result(attempt)
        except asyncio.CancelledError:
            await self._release(key)
            raise
        except RenewalError as error:
            await _end(attempt)
            await self._failed(key, str(error))
        else:
            await self._renewed(key, content, started)

    async def _keep_alive(self, key: SessionKey, attempt: asyncio.Future[Any]) -> None:
        """Wait for the attempt, with signs of life.

        :raises RenewalError: if it takes too long, or somebody else has taken over
        """
        give_up_at = clock.now() + LONGEST_SECS
        hold = renewal_scripts.hold(
            key, self._holder, ttl=self._ttl, lease_ms=_ms(self._lease_secs)
        )
        while not attempt.done():
            await asyncio.wait({attempt}, timeout=self._lease_secs / 3)
            if attempt.done():
                break
            if clock.now() > give_up_at:
                raise RenewalError(f"not done within {LONGEST_SECS:g} s")
            try:
                is_held = await self._run(key, hold)
            except RedisStateError as error:
                logger.debug("No sign of life: %(error)s", {"error": error})
            else:
                if not is_held:
                    raise RenewalError("somebody else has taken over")

    async def _renewed(
        self, key: SessionKey, content: Changes | None, started: float
    ) -> None:
        call = renewal_scripts.renewed(key, self._holder, content, ttl=self._ttl)
        saved = await self._tell(key, call)
        if saved is None:
            return
        if saved.stale or saved.session.unreadable:
            logger.info("Session %(key)s: replaced while it was renewed", {"key": key})
            return
        self._count("renewed")
        secs = clock.now() - started
        logger.info(
            "Session %(key)s: renewed in %(secs).1f s", {"key": key, "secs": secs}
        )
        for problem in saved.refused:
            logger.warning("Session %(key)s: %(what)s", {"key": key, "what": problem})

    async def _failed(self, key: SessionKey, reason: str) -> None:
        saved = await self._tell(key, self._giving_up(key, counts=True))
        renewal = saved.session.renewal if saved and not saved.stale else None
        self._count_failure(key, renewal, reason)

    def _count_failure(
        self, key: SessionKey, renewal: Renewal | None, reason: str
    ) -> None:
        self._count("renewal_failed")
        logger.warning(
            "Session %(key)s: renewal failed (%(count)s of %(most)d): %(reason)s",
            {
                "key": key,
                "count": renewal.failures if renewal else "not counted",
                "most": MOST_FAILURES,
                "reason": reason,
            },
        )
        if renewal and renewal.failed:
            logger.warning(
                "Session %(key)s is given up: its requests fail until it is published"
                " or invalidated ('scrapy redis-state session invalidate')",
                {"key": key},
            )

    async def _release(self, key: SessionKey) -> None:
        logger.info("Session %(key)s: renewal left to others", {"key": key})
        call = self._giving_up(key, counts=False)
        with contextlib.suppress(RedisStateError, asyncio.TimeoutError):
            await asyncio.wait_for(_as_coroutine(self._run(key, call)), RELEASE_SECS)

    def _giving_up(self, key: SessionKey, *, counts: bool) -> Call[Saved]:
        return renewal_scripts.renewal_failed(
            key,
            self._holder,
            ttl=self._ttl,
            most_failures=MOST_FAILURES,
            back_off_ms=_ms(BACK_OFF_SECS),
            counts=counts,
        )

    async def _tell(self, key: SessionKey, call: Call[Saved]) -> Saved | None:
        """Tell the server how it ended, also one that is away for a moment."""
        give_up_at = clock.now() + self._lease_secs
        while True:
            try:
                saved: Saved = await self._run(key, call)
            except Unavailable as error:
                problem: RedisStateError = error
            except RedisStateError as error:
                problem, give_up_at = error, -math.inf
            else:
                return saved
            if self._closed or clock.now() > give_up_at:
                logger.warning(
                    "Session %(key)s: the end of a renewal could not be stored:"
                    " %(error)s",
                    {"key": key, "error": problem},
                )
                return None
            await asyncio.sleep(AGAIN_SECS)


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


async def _end(attempt: asyncio.Future[Any]) -> None:
    attempt.cancel()
    await asyncio.wait({attempt}, timeout=RELEASE_SECS)
    if attempt.done() and not attempt.cancelled():
        attempt.exception()  # or asyncio complains that nobody has looked


def _result(attempt: asyncio.Future[Changes | None]) -> Changes | None:
    """What the attempt returned.

    :raises RenewalError: if it raised
    """
    if attempt.cancelled():
        raise RenewalError("it was cancelled")
    error = attempt.exception()
    if error is None:
        return attempt.result()
    if isinstance(error, RenewalError):
        raise error
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    logger.debug("A renewal raised", exc_info=error)
    raise RenewalError(text[:_MOST_REASON])


def _why(claimed: Claimed) -> str:
    if claimed.status not in ("failed", "disproved"):
        return ""
    renewal = claimed.session.renewal
    if renewal and renewal.why == "invalid":
        return "it was renewed too often without a page that was good"
    return claimed.session.unreadable or "its renewal failed too often"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
