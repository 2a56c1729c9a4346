"""What those who run crawls do with them; see :mod:`.steps`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from scrapy_redis_state.store import operator_scripts as scripts
from scrapy_redis_state.store.dead import DeadFilter, DeadLetter, Requeued
from scrapy_redis_state.store.errors import Refused, no_crawl
from scrapy_redis_state.store.keys import FIRST_EPOCH
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.requests import LeasedRequest
from scrapy_redis_state.store.steps import BATCH, CrawlSteps, Steps

_EVERYTHING = DeadFilter()


class OperatorSteps(CrawlSteps):
    """All that a program may do with a crawl."""

    # --- dead letters ----------------------------------------------------------------

    def dead_letters(self, wanted: DeadFilter = _EVERYTHING) -> Steps[list[DeadLetter]]:
        found: dict[str, DeadLetter] = {}
        if wanted.ids:
            letters = yield scripts.dead_look(self.keys, wanted.ids)
            found = {one.id: one for one in letters if wanted.takes(one)}
        else:
            cursor = ""
            while cursor != "0":
                reply = yield scripts.dead_scan(self.keys, cursor or "0")
                found |= {one.id: one for one in reply.letters if wanted.takes(one)}
                cursor = reply.cursor
        return sorted(found.values(), key=lambda one: (one.given_up_at, one.id))

    def requeue_dead(self, wanted: DeadFilter) -> Steps[Requeued]:
        ready, skipped = [], []
        for letter in (yield from self.dead_letters(wanted)):
            try:
                ready.append((letter, letter.renewed()))
            except ValueError as error:
                skipped.append(f"{letter.id} ({letter.url or 'no URL'}): {error}")
        count = 0
        for first in range(0, len(ready), BATCH):
            count += yield from self._requeue(ready[first : first + BATCH])
        return Requeued(count, skipped)

    def _requeue(self, piece: Sequence[tuple[DeadLetter, bytes]]) -> Steps[int]:
        while True:
            call = scripts.dead_requeue(self.keys, self._epoch, piece)
            reply: scripts.RequeueReply = yield call
            if reply.status == "expiring":
                raise Refused(
                    f"Crawl {self.keys.crawl!r} is finished and cannot go on, since its"
                    " seen set expires: push the URLs into the next run."
                )
            if reply.status != "epoch":
                return reply.count
            self._epoch = reply.epoch

    def drop_dead(self, wanted: DeadFilter) -> Steps[int]:
        letters = yield from self.dead_letters(wanted)
        dropped = 0
        for first in range(0, len(letters), BATCH):
            piece = letters[first : first + BATCH]
            dropped += yield scripts.dead_drop(self.keys, piece)
        return dropped

    # --- the crawl as a whole --------------------------------------------------------

    def set_status(self, wanted: CrawlStatus) -> Steps[bool]:
        before = yield scripts.set_status(self.keys, wanted)
        if before is None:
            raise no_crawl(self.keys.crawl)
        if before is CrawlStatus.FINISHED:
            raise Refused(f"Crawl {self.keys.crawl!r} is finished.")
        if before is CrawlStatus.DRAINING and wanted is CrawlStatus.PAUSED:
            raise Refused(
                f"Crawl {self.keys.crawl!r} is draining, which holds it already: resume"
                " it first."
            )
        return before is not wanted

    def peek(self, count: int) -> Steps[list[LeasedRequest]]:
        entries = yield scripts.peek(self.keys, count)
        found = []
        for id, entry in entries:
            try:
                found.append(LeasedRequest.from_entry(id, 0, entry, ""))
            except ValueError:
                continue  # whoever pops it makes a dead letter of it
        return found

    def delete(
        self,
        *,
        force: bool = False,
        unused_secs: float = 0,
        dry_run: bool = False,
        import_token: str = "",
    ) -> Steps[bool]:
        token = import_token or uuid.uuid4().hex
        unused_ms = round(unused_secs * 1000)
        while True:
            reply: scripts.DeleteReply = yield scripts.delete(
                self.keys,
                self._epoch,
                token,
                force=force,
                unused_ms=unused_ms,
                dry_run=dry_run,
                of_import=bool(import_token),
            )
            if reply.status == "epoch":
                self._epoch = reply.value
            elif reply.status == "tidy":
                self._epoch = reply.value
                yield from self._tidy(reply.position)
            else:
                break
        if reply.status in ("busy", "recent", "used"):
            raise Refused(self._why_not_deleted(reply))
        if not dry_run:
            self._epoch = FIRST_EPOCH
            self._forget()
        return reply.status == "ok"

    def _why_not_deleted(self, reply: scripts.DeleteReply) -> str:
        crawl = f"Crawl {self.keys.crawl!r}"
        if reply.status == "busy":
            return (
                f"{crawl} has {reply.value} live workers: stop them first, or delete it"
                " with force=True."
            )
        if reply.status == "recent":
            return f"{crawl} was used more recently than that, and stays."
        return f"{crawl} is in use again: what was in it before is gone; try again."
