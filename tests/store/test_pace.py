"""How fast a crawl goes: what exchanges note, and what is made of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.store.messages import Bury, Release
from scrapy_redis_state.store.pace import Pace, Sample, pace, rate, read_samples
from tests.servers import Server
from tests.store.crawls import LEASE_MS, Crawl, ack, page

SLOT_US = 10_000_000


@pytest.fixture
def crawl(server: Server, crawl_name: str) -> Iterator[Crawl]:
    """One that is not there yet."""
    crawl = Crawl(server.client(), crawl_name)
    yield crawl
    assert crawl.fsck() == []


def next_slot(crawl: Crawl) -> None:
    """Have the next exchange fall into another slot of time."""
    crawl.ago("stamp", SLOT_US)


def grow_old(crawl: Crawl, secs: float) -> None:
    """Have all that was noted so far be older."""
    packed = crawl.client.hget(crawl.key("crawl"), "samples")
    generation, *flat = msgpack.unpackb(packed)
    aged = [
        value - round(secs * 1000) if i % 3 == 0 else value
        for i, value in enumerate(flat)
    ]
    crawl.set(samples=msgpack.packb([generation, *aged]))


# --- what exchanges note -------------------------------------------------------------


def test_a_crawl_tells_how_fast_it_goes(crawl: Crawl) -> None:
    """Over the last minute: pages done, requests that came, and when it will end."""
    member = crawl.member()
    next_slot(crawl)
    member.exchange(*map(page, "abcdefghij"))
    assert crawl.status().pace == Pace()
    grow_old(crawl, 60)
    held = member.take(6)
    member.exchange(*map(ack, held))
    status = crawl.status()
    assert status.pace.done == pytest.approx(6 / 60, rel=0.2)
    assert status.pace.stored == pytest.approx(0)
    assert status.pace.eta_secs == pytest.approx(40, rel=0.2)
    assert status.pace.grows is None
    grow_old(crawl, 3600)
    assert crawl.status().pace.done == pytest.approx(0, abs=0.01)


def test_nothing_is_noted_by_most_exchanges(crawl: Crawl) -> None:
    """One in ten seconds notes a sample, whatever the others do."""
    member = crawl.member()
    crawl.set(stamp=int(crawl.client.time()[0]) // 10 * SLOT_US)
    noted = set()
    for name in "abcdefgh":
        member.exchange(page(name))
        noted.add(crawl.field("samples") if crawl.status().samples else "")
    assert len(noted) <= 2  # should the slot have ended meanwhile


def test_samples_are_bounded(crawl: Crawl) -> None:
    """Five minutes of them, however long a crawl goes."""
    member = crawl.member()
    for _ in range(40):
        next_slot(crawl)
        member.exchange()
    assert len(crawl.status().samples) == 31


def test_another_generation_begins_with_none(crawl: Crawl) -> None:
    """What was done in the one before is no progress of this one."""
    member = crawl.member()
    next_slot(crawl)
    member.exchange(page("a"))
    assert crawl.status().samples
    member.exchange(*map(ack, member.take(1)))
    member.leave()
    crawl.ago("finished_at", 1000)
    again = crawl.member("w2")
    assert crawl.status().samples == ()
    next_slot(crawl)
    again.exchange()
    assert [one.done for one in crawl.status().samples] == [0]


def test_a_clock_that_was_put_back_begins_with_none(crawl: Crawl) -> None:
    """Samples of the future tell nothing."""
    member = crawl.member()
    next_slot(crawl)
    member.exchange(page("a"))
    grow_old(crawl, -3600)
    assert crawl.status().pace == Pace()
    next_slot(crawl)
    member.exchange()
    assert len(crawl.status().samples) == 1


def test_workers_are_told_of_one_by_one(crawl: Crawl) -> None:
    """What each holds, for how long, and what it has done since it joined."""
    one, other = crawl.member("one"), crawl.member("other")
    one.exchange(*map(page, "abcdefgh"))
    held = one.take(4, oldest_ms=0)
    other.take(2, oldest_ms=7000)
    one.exchange(ack(held[0]), ack(held[1]), oldest_ms=3000)
    one.exchange(Release(held[2].id, 2), ack(held[1]), oldest_ms=3000)
    found = {worker.id: worker for worker in crawl.status().workers}
    assert (found["one"].held, found["one"].done) == (1, 2)
    assert (found["other"].held, found["other"].done) == (2, 0)
    assert found["one"].oldest_ms == 3000
    assert all(0 <= worker.silence_ms < LEASE_MS for worker in found.values())
    one.exchange(Bury(held[3].id, 2, "given up"))
    assert {worker.held for worker in crawl.status().workers} == {0, 2}


def test_a_repeated_batch_is_counted_once(crawl: Crawl) -> None:
    """As all that it does."""
    member = crawl.member()
    member.exchange(page("a"), page("b"))
    (held,) = member.take(1)
    request = member.request(ack(held), want=1)
    for _ in range(3):
        member.send(request)
    (worker,) = crawl.status().workers
    assert (worker.held, worker.done) == (1, 1)


def test_the_rate_of_a_worker_is_that_of_its_last_marks(crawl: Crawl) -> None:
    """They lie half a minute to a minute back."""
    member = crawl.member()
    member.exchange(*map(page, "abcd"))
    held = member.take(4)
    member.exchange(*map(ack, held))
    status = crawl.status()
    (worker,) = status.workers
    assert [done for _, done in worker.marks] == [0, 0]
    assert rate(status.now + 40, worker.done, worker.marks) == pytest.approx(0.1, 0.1)


def test_the_oldest_lease_is_told(crawl: Crawl) -> None:
    """By the crawl clock, also of programs that do not tell of it."""
    assert crawl.status().oldest_lease_ms == 0
    member = crawl.member()
    assert crawl.status().oldest_lease_ms == -1
    member.exchange(page("a"))
    member.take(1)
    crawl.later(LEASE_MS // 2)
    assert LEASE_MS // 2 <= crawl.status().oldest_lease_ms < LEASE_MS


def test_a_record_that_was_overwritten_hides_nothing_else(crawl: Crawl) -> None:
    """Status is what one looks at when something is wrong."""
    crawl.member("a").exchange(page("x"))
    crawl.member("b")
    crawl.client.hset(crawl.key("replies"), "b", "rubbish")
    status = crawl.status()
    assert status.summary.pending == 1
    assert [worker.silence_ms for worker in status.workers if worker.id == "b"] == [-1]


RUBBISH = [b"", b"\xc1", b"\x01", msgpack.packb(["a"]), msgpack.packb([1, *"abc"])]


@pytest.mark.parametrize("samples", RUBBISH)
def test_samples_that_were_overwritten_are_begun_anew(
    crawl: Crawl, samples: bytes
) -> None:
    """Neither status nor an exchange fails over them."""
    member = crawl.member()
    crawl.set(samples=samples)
    assert crawl.status().pace == Pace()
    next_slot(crawl)
    assert member.exchange().status == "ok"
    assert len(crawl.status().samples) == 1


# --- what is made of it --------------------------------------------------------------

NOW = Sample(1000.0, 500, 5000)


def test_a_frontier_that_grows_is_told_after_a_while() -> None:
    """Growth over minutes, of a tenth of what is done at least, with much left."""
    ago = range(30, 0, -1)
    growing = [Sample(1000.0 - 10 * n, 500 - n, 5000 - 50 * n) for n in ago]
    found = pace(NOW, growing)
    assert found.grows == pytest.approx(5)
    assert found.eta_secs is None
    assert found.stored == pytest.approx(5.1)
    assert pace(NOW, growing[-4:]).grows is None  # less than a minute
    few = [one._replace(left=one.left - 4500) for one in growing]
    assert pace(NOW._replace(left=500), few).grows is None
    slow = [one._replace(done=500 - (500 - one.done) * 600) for one in growing]
    assert pace(NOW._replace(done=500), slow).grows is None
    assert pace(NOW._replace(left=3000), growing).grows is None


COUNTS = st.integers(0, 2**53)


@given(
    now=st.builds(Sample, st.floats(0, 2e9), COUNTS, COUNTS),
    samples=st.lists(
        st.builds(Sample, st.floats(-2e9, 2e9), COUNTS, COUNTS),
        max_size=6,
    ),
)
def test_no_figure_is_negative_or_no_number(now: Sample, samples: list[Sample]) -> None:
    """Whatever clocks and counters did."""
    found = pace(now, samples)
    for value in (found.done, found.stored, found.eta_secs, found.grows):
        assert value is None or (value >= 0 and math.isfinite(value))


@given(st.binary(max_size=40))
def test_samples_are_read_or_are_none(packed: bytes) -> None:
    """Another program may write there."""
    assert isinstance(read_samples(packed, 1), tuple)
