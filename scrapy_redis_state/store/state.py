"""The crawl's state for programs that are not Scrapy: producers, workers, tools.

``CrawlState`` and ``AsyncCrawlState`` have the same methods; those of the second are
awaited. (Only the first can export and import a crawl, and push ahead.) One object is
for one thread or task at a time.

Nothing is retried by itself: when the server does not answer, a method raises
:exc:`~.errors.Unavailable`, and may be called again. A push that is repeated stores
nothing twice, unless its requests have ``dont_filter``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_redis_state.store import endings
from scrapy_redis_state.store.canonical import DEFAULT_RULES, UrlRules
from scrapy_redis_state.store.client import sync_client, translated
from scrapy_redis_state.store.dead import dead_filter
from scrapy_redis_state.store.errors import RedisStateError
from scrapy_redis_state.store.fsck import check_crawl, read_commands
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.move import export_crawl, import_crawl
from scrapy_redis_state.store.operator_steps import OperatorSteps
from scrapy_redis_state.store.pushing import push_in_order
from scrapy_redis_state.store.runner import run_steps
from scrapy_redis_state.store.seen import (
    DEFAULT_CAPACITY,
    DEFAULT_ERROR_RATE,
    SeenSet,
)
from scrapy_redis_state.store.sessions.session import SESSION_TTL_SECS
from scrapy_redis_state.store.sessions.sessions import Sessions

if TYPE_CHECKING:
    from redis import Redis
    from typing_extensions import Self

    from scrapy_redis_state.store.dead import DeadLetter, Requeued
    from scrapy_redis_state.store.messages import ReapReply, Store
    from scrapy_redis_state.store.move.files import File
    from scrapy_redis_state.store.move.form import Moved, Progress
    from scrapy_redis_state.store.requests import LeasedRequest, RequestLike
    from scrapy_redis_state.store.status import StatusReply
    from scrapy_redis_state.store.steps import Steps

T = TypeVar("T")


class CrawlState:
    """One crawl, with blocking calls; a context manager.

    :param client: from :func:`~.client.sync_client`; closed with this object
    :param keys: of the crawl
    :param session_ttl_secs: ``REDIS_STATE_SESSION_TTL_SECS`` of the crawl
    :param rules: which URLs are the same page, ``REDIS_STATE_STRIP_QUERY_PARAMS``
    """

    def __init__(
        self,
        client: Redis,
        keys: CrawlKeys,
        session_ttl_secs: int = SESSION_TTL_SECS,
        rules: UrlRules = DEFAULT_RULES,
    ) -> None:
        self._client = client
        self._steps = OperatorSteps(keys, rules)
        self.sessions = Sessions(client, keys.prefix, session_ttl_secs)
        """Cookies and what belongs to them, of all sites under the same prefix."""

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        crawl: str,
        prefix: str = "",
        seen: str = "exact",
        seen_capacity: int = DEFAULT_CAPACITY,
        seen_error_rate: float = DEFAULT_ERROR_RATE,
        session_ttl_secs: int = SESSION_TTL_SECS,
    ) -> Self:
        """A connection to *crawl* on the server at *url*, made when first used.

        :param prefix: ``REDIS_STATE_KEY_PREFIX`` of the crawl
        :param seen: ``exact``, ``bloom`` or ``packed``, for a crawl that this program
            begins; with ``exact`` it goes by what it finds, and refuses the others
        :param seen_capacity: ``REDIS_STATE_SEEN_CAPACITY``
        :param seen_error_rate: ``REDIS_STATE_SEEN_ERROR_RATE``
        :param session_ttl_secs: ``REDIS_STATE_SESSION_TTL_SECS`` of the crawl
        :raises ValueError: for a value that cannot be used
        """
        seen_set = SeenSet(seen, seen_capacity, seen_error_rate)
        keys = CrawlKeys(crawl, prefix, seen_set)
        return cls(sync_client(url), keys, session_ttl_secs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Hand back what is still leased, and disconnect."""
        try:
            self._run(self._steps.sign_off())
        except RedisStateError:
            pass  # the leases expire
        finally:
            self._client.close()

    def push(self, request: RequestLike, priority: int | None = None) -> bool:
        """Store a request; False if it is a duplicate.

        :param priority: instead of the request's own; highest first
        :raises ValueError: for a request that no worker could run
        """
        return self.push_many([request], priority)[0]

    def push_many(
        self, requests: Iterable[RequestLike | Store], priority: int | None = None
    ) -> list[bool]:
        """Store requests, 500 a round trip; for each, whether it was new."""
        # All are looked at before the first is sent.
        return self._push([*self._steps.stores(requests, priority)])

    def push_ahead(
        self, requests: Iterable[RequestLike | Store], priority: int | None = None
    ) -> Iterator[list[bool]]:
        """Store any number of requests, which are read while others are stored.

        They are stored as the result is iterated over, in their order.

        :return: of 500 at a time: for each, whether it was new
        :raises ValueError: for a request that no worker could run; this, and any other
            error, may come when requests of up to five round trips that no answer was
            returned for are stored, or some of them
        """
        stores = self._steps.stores(requests, priority)
        return push_in_order(self._client, self._steps, stores)

    def push_message(
        self, message: Mapping[str, Any], priority: int | None = None
    ) -> bool:
        """Store a message, for a spider with a method ``redis_state_request(message)``.

        It may have any fields. False if it is a duplicate: of an equal page, or, where
        it has no URL, of an equal message.

        :param priority: instead of the message's own; highest first
        :raises ValueError: for what cannot be stored
        """
        return self.push_messages([message], priority)[0]

    def push_messages(
        self, messages: Iterable[Mapping[str, Any]], priority: int | None = None
    ) -> list[bool]:
        """:meth:`push_message` for many, 500 a round trip."""
        return self._push([*self._steps.message_stores(messages, priority)])

    def claim(self, url: str) -> bool:
        """Mark *url* as seen; True for the one program that was first."""
        return self.claim_many([url])[0]

    def claim_many(self, urls: Iterable[str]) -> list[bool]:
        """Mark URLs as seen; for each, whether this call was first."""
        return self._run(self._steps.claim_urls(urls))

    def claim_fingerprint(self, fingerprint: bytes) -> bool:
        """Mark a fingerprint as seen; True for the first."""
        return self._run(self._steps.claim_many([fingerprint]))[0]

    def forget(self, url: str) -> bool:
        """Have *url* count as new again; True if it was seen.

        :raises Refused: if the seen set is a Bloom filter, which cannot forget
        :raises ValueError: for what is no URL of a page; then nothing is forgotten
        """
        return self.forget_many([url])[0]

    def forget_many(self, urls: Iterable[str]) -> list[bool]:
        """:meth:`forget` for many URLs."""
        return self._run(self._steps.forget_urls(urls))

    def prioritize(self, pattern: str | re.Pattern[str], by: int) -> int:
        """Add *by* to the priority of each request whose URL *pattern* is found in.

        Wherever the requests are; those that a worker has started already too, should
        they come back. In steps, so that nobody waits; requests stored meanwhile may be
        left out.

        :param by: may be negative
        :return: of how many
        """
        return self._run(self._steps.prioritize(re.compile(pattern), by))

    def lease(self, count: int = 1) -> list[LeasedRequest]:
        """Take up to *count* requests, best first.

        They are this program's until they are ended, or until it calls neither this
        nor what ends them for ``REDIS_STATE_LEASE_SECS``; then others get them.
        """
        return self._run(self._steps.lease(count))

    def ack(self, *leased: LeasedRequest) -> list[bool]:
        """They are done. False for one that this program does not hold any more."""
        return self._run(self._steps.end(leased, endings.ack))

    def release(self, *leased: LeasedRequest) -> list[bool]:
        """Hand them back as they were."""
        return self._run(self._steps.end(leased, endings.release))

    def fail(self, leased: LeasedRequest, reason: str, delay_secs: float = 1.0) -> bool:
        """It went wrong: try it again later, or give it up after too many times."""
        end = endings.failure(reason, delay_secs)
        return self._run(self._steps.end([leased], end))[0]

    def bury(self, leased: LeasedRequest, reason: str) -> bool:
        """Give it up: move it to the dead letters."""
        return self._run(self._steps.end([leased], endings.burial(reason)))[0]

    def reap(self, limit: int = 100) -> ReapReply:
        """Put back the work of dead workers, and delayed requests that are due."""
        return self._run(self._steps.reap(limit))

    def status(self) -> StatusReply:
        """The crawl at a glance; generation 0 if there is none."""
        return self._run(self._steps.status())

    def size(self) -> int:
        """How many requests wait in the frontier."""
        return self.status().summary.pending

    def fsck(self) -> list[str]:
        """What in the crawl's keys does not fit together; reads all of it."""
        with translated(), self._client.pipeline(transaction=True) as pipeline:
            for command in read_commands(self._steps.keys):
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            return check_crawl(pipeline.execute())

    def reset(self, *, force: bool = False) -> None:
        """Start over: a new generation with nothing in it.

        A worker that died counts as live until calls on this crawl have covered one
        lease, each at most 5 s of it.

        :raises Refused: while workers live, unless *force*
        """
        self._run(self._steps.reset(force=force))

    def dead_letters(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> list[DeadLetter]:
        """Requests that were given up, oldest first; all that there are, or some.

        :param ids: of which requests
        :param reason: a part of why
        :param match: is found in the URL
        """
        wanted = dead_filter(ids, reason, match)
        return self._run(self._steps.dead_letters(wanted))

    def requeue_dead(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> Requeued:
        """Have requests that were given up tried again; see :meth:`dead_letters`.

        With their old priority, with nothing counted against them, and whether they
        were seen or not. A crawl that has finished goes on with them.

        :raises Refused: if it cannot, since its seen set expires
        """
        wanted = dead_filter(ids, reason, match)
        return self._run(self._steps.requeue_dead(wanted))

    def drop_dead(
        self,
        *,
        ids: Collection[str] = (),
        reason: str = "",
        match: str | re.Pattern[str] | None = None,
    ) -> int:
        """Forget requests that were given up; how many. See :meth:`dead_letters`."""
        wanted = dead_filter(ids, reason, match)
        return self._run(self._steps.drop_dead(wanted))

    def pause(self) -> bool:
        """Have nothing more started; what runs is finished, and workers stay.

        :return: False if it was paused already
        :raises Refused: if there is no such crawl, or it is finished
        """
        return self._run(self._steps.set_status(CrawlStatus.PAUSED))

    def drain(self) -> bool:
        """Have nothing more started; workers finish what runs and then end.

        Those that start meanwhile end at once. Requests may still be pushed.

        :return: False if it was draining already
        :raises Refused: if there is no such crawl, or it is finished
        """
        return self._run(self._steps.set_status(CrawlStatus.DRAINING))

    def resume(self) -> bool:
        """Have a crawl that is paused or drains go on; False if it does."""
        return self._run(self._steps.set_status(CrawlStatus.RUNNING))

    def peek(self, count: int = 10) -> list[LeasedRequest]:
        """The requests that come next, best first; changes nothing.

        :param count: 4000 at most
        """
        return self._run(self._steps.peek(count))

    def delete(
        self, *, force: bool = False, unused_secs: float = 0, dry_run: bool = False
    ) -> bool:
        """Remove the crawl and all its keys; False if there was none.

        :param force: also while workers live
        :param unused_secs: only if nobody has used it for so long; then it does not
            matter whether its workers ever said that they left
        :param dry_run: change nothing
        :raises Refused: while workers live, or if it was used; see :meth:`reset`
        """
        steps = self._steps.delete(
            force=force, unused_secs=unused_secs, dry_run=dry_run
        )
        return self._run(steps)

    def export(
        self,
        file: File,
        *,
        force: bool = False,
        sessions: bool = False,
        progress: Progress | None = None,
    ) -> Moved:
        """Write the whole crawl to a file, from which :meth:`import_` makes it again.

        It must be at rest: without live workers; or paused, finished or drained, and
        nothing in flight. What is in flight without a worker is pending in the copy.

        :param file: a path, compressed unless it ends in ``.jsonl``; or what bytes are
            written to
        :param force: also while it is at work; then the copy lacks what changes
        :param sessions: also all sessions under the crawl's prefix: logins
        :param progress: called with how much is done, and how much there is, about
        :raises Refused: if there is no such crawl, it is at work, or it changed while
            it was read; then there is no file
        """
        return export_crawl(
            self._client,
            self._steps.keys,
            file,
            force=force,
            sessions=sessions,
            progress=progress,
        )

    def import_(self, file: File, *, progress: Progress | None = None) -> Moved:
        """Make this crawl of a file, as it was; there must be none.

        Nobody can use the crawl before all of it is there. Its seen set is what the
        file says, whatever this object was told.

        :param file: a path, or what bytes are read from
        :param progress: as with :meth:`export`
        :raises Refused: if there is such a crawl, or the file is damaged, not whole or
            of a later version; then nothing is left of it
        """
        return import_crawl(self._client, self._steps.keys, file, progress=progress)

    def _push(self, requests: Iterable[Store]) -> list[bool]:
        answered = push_in_order(self._client, self._steps, requests)
        return [new for some in answered for new in some]

    def _run(self, steps: Steps[T]) -> T:
        return run_steps(self._client, steps)
