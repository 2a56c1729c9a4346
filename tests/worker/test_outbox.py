"""The outbox: what is sent next, and what is kept back."""

from __future__ import annotations

import random

import pytest

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Claim,
    Fail,
    Release,
    Seeded,
    Store,
    StoreDead,
)
from scrapy_redis_state.worker import outbox as outbox_module
from scrapy_redis_state.worker.lease import Lease
from scrapy_redis_state.worker.outbox import MAX_BYTES, MAX_OPERATIONS, Entry, Outbox
from tests.worker.fleet import ack, page

STORED, DUPLICATE, REFUSED = Answer.STORED, Answer.DUPLICATE, Answer.REFUSED
DONE, WITHHELD = Answer.DONE, Answer.WITHHELD


@pytest.fixture
def outbox():
    return Outbox()


@pytest.fixture
def lease():
    return Lease("1", 1, 0, 0, b"payload")


def operations(entries):
    return [entry.operation for entry in entries]


def offer(outbox, *names, lease=None):
    for name in names:
        outbox.add(Entry(page(name), lease, tag=name))


def best_of(entries):
    return max((entry.operation.priority for entry in entries), default=None)


def end(outbox, lease, end=None):
    lease.is_over = True
    outbox.end(lease, end or ack(lease))


class TestBatch:
    def test_it_is_in_the_order_of_adding(self, outbox, lease):
        """A page's end stands behind what the page made."""
        offer(outbox, "a", "b", lease=lease)
        end(outbox, lease)
        offer(outbox, "c")
        sent = operations(outbox.freeze())
        assert sent == [page("a"), page("b"), ack(lease), page("c")]

    def test_what_may_go_later_goes_with_the_next(self, outbox):
        """It is no reason for one, but counts as not stored until it is answered."""
        outbox.add_later(Entry(Seeded(1)))
        assert (outbox.waiting, len(outbox)) == (0, 1)
        offer(outbox, "a")
        assert operations(outbox.freeze()) == [page("a"), Seeded(1)]
        outbox.settle([STORED, DONE])
        assert (len(outbox), outbox.freeze()) == (0, [])

    def test_it_is_frozen_until_it_is_answered(self, outbox):
        """What is added meanwhile waits for the next."""
        offer(outbox, "a")
        first = operations(outbox.freeze())
        offer(outbox, "b")
        assert operations(outbox.freeze()) == first == [page("a")]
        assert (len(outbox), outbox.waiting) == (2, 1)
        outbox.settle([STORED])
        assert operations(outbox.freeze()) == [page("b")]

    def test_its_answers_are_told_with_what_they_belong_to(self, outbox):
        """In order."""
        offer(outbox, "a", "b")
        outbox.freeze()
        decided = outbox.settle([STORED, DUPLICATE])
        assert [(entry.tag, answer) for entry, answer in decided] == [
            ("a", STORED),
            ("b", DUPLICATE),
        ]
        assert len(outbox) == 0

    def test_it_has_a_bounded_number_of_operations(self, outbox):
        """The rest is for the next."""
        offer(outbox, *map(str, range(MAX_OPERATIONS + 3)))
        assert len(outbox.freeze()) == MAX_OPERATIONS
        outbox.settle([STORED] * MAX_OPERATIONS)
        assert len(outbox.freeze()) == 3

    def test_it_has_a_bounded_size(self, outbox):
        """One operation always fits, however large."""
        for size in (MAX_BYTES // 3, MAX_BYTES // 2, MAX_BYTES * 2, 1):
            outbox.add(Entry(Store(b"x" * size)))
        counts = []
        while outbox.waiting:
            counts.append(len(outbox.freeze()))
            outbox.settle([STORED] * counts[-1])
        assert counts == [2, 1, 1]


class TestFull:
    def test_by_number(self, outbox, monkeypatch):
        """Until enough is answered."""
        monkeypatch.setattr(outbox_module, "FULL_OPERATIONS", 2)
        offer(outbox, "a")
        assert not outbox.is_full
        offer(outbox, "b")
        outbox.freeze()
        assert outbox.is_full
        outbox.settle([STORED, STORED])
        assert not outbox.is_full

    def test_by_size(self, outbox, monkeypatch):
        """What is parked counts, and what is answered or given up does not."""
        monkeypatch.setattr(outbox_module, "FULL_BYTES", 1000)
        outbox.add(Entry(Store(b"x" * 1000)))
        assert outbox.is_full
        outbox.freeze()
        outbox.settle([REFUSED])
        assert outbox.is_full
        outbox.freeze()
        outbox.settle([STORED])
        assert not outbox.is_full


class TestBestPriority:
    def test_it_is_that_of_what_is_on_its_way(self, outbox, monkeypatch):
        """Whatever comes and goes; what finds no room is not on its way any more."""
        monkeypatch.setattr(outbox_module, "MAX_OPERATIONS", 7)
        chance = random.Random(1)
        under_way: list[Entry] = []
        for number in range(400):
            for _ in range(chance.randrange(8)):
                store = page(str(number), chance.randrange(-3, 4))
                under_way.append(Entry(store, tag="new"))
                outbox.add(under_way[-1])
                assert outbox.best_priority == best_of(under_way)
            batch = list(outbox.freeze())
            assert outbox.best_priority == best_of(under_way)
            outbox.settle([chance.choice((STORED, STORED, REFUSED)) for _ in batch])
            under_way = [entry for entry in under_way if entry not in batch]
            assert outbox.best_priority == best_of(under_way)
            if not number % 50:
                outbox.rejoined()
                entries = [*outbox.freeze(), *outbox._waiting]
                under_way = [one for one in entries if not one.was_parked]
                assert outbox.best_priority == best_of(under_way)


class TestParking:
    def test_a_refused_request_leaves_the_order(self, outbox):
        """Others go on; it is tried again once in each batch, first."""
        offer(outbox, "a", "b", "c")
        outbox.freeze()
        outbox.settle([REFUSED, STORED, REFUSED])
        assert (outbox.parked, len(outbox)) == (2, 2)
        offer(outbox, "d")
        assert operations(outbox.freeze()) == [page("a"), page("d")]
        outbox.settle([REFUSED, REFUSED])
        assert operations(outbox.freeze()) == [page("c")]

    def test_the_end_of_its_page_waits_for_it(self, outbox, lease):
        """Whether it was sent with it, was waiting, or comes later."""
        for when in ("sent", "waiting", "later"):
            offer(outbox, "a", lease=lease)
            if when == "sent":
                end(outbox, lease)
            outbox.freeze()
            if when == "waiting":
                end(outbox, lease)
            outbox.settle([REFUSED, WITHHELD] if when == "sent" else [REFUSED])
            if when == "later":
                end(outbox, lease)
            assert operations(outbox.freeze()) == [page("a")]
            outbox.settle([REFUSED])
            assert operations(outbox.freeze()) == [page("a")]
            outbox.settle([STORED])
            assert operations(outbox.freeze()) == [ack(lease)]
            outbox.settle([DONE])
            assert len(outbox) == 0
            lease.is_over = False

    def test_it_waits_for_all_of_them(self, outbox, lease):
        """A duplicate is as good as stored."""
        offer(outbox, "a", "b", lease=lease)
        end(outbox, lease)
        outbox.freeze()
        outbox.settle([REFUSED, REFUSED, WITHHELD])
        assert operations(outbox.freeze()) == [page("a")]
        outbox.settle([DUPLICATE])
        assert operations(outbox.freeze()) == [page("b")]
        outbox.settle([STORED])
        assert operations(outbox.freeze()) == [ack(lease)]

    def test_other_pages_do_not_wait(self, outbox, lease):
        """Their ends are sent as ever."""
        other = Lease("2", 1, 0, 0, b"")
        offer(outbox, "a", lease=lease)
        end(outbox, lease)
        offer(outbox, "b", lease=other)
        end(outbox, other)
        outbox.freeze()
        decided = outbox.settle([REFUSED, WITHHELD, STORED, DONE])
        assert operations(entry for entry, _ in decided) == [page("b"), ack(other)]

    def test_a_failure_that_waits_stays_a_failure(self, outbox, lease):
        """It is not lost, nor turned into an ack."""
        offer(outbox, "a", lease=lease)
        outbox.freeze()
        outbox.settle([REFUSED])
        failure = Fail("1", 1, 0, "oops")
        end(outbox, lease, failure)
        outbox.freeze()
        outbox.settle([STORED])
        assert operations(outbox.freeze()) == [failure]


class TestGivingUp:
    def test_a_page_whose_request_found_no_room_is_handed_back(self, outbox, lease):
        """Not acked: whoever gets it makes the request again."""
        offer(outbox, "a", "b", lease=lease)
        end(outbox, lease)
        outbox.freeze()
        outbox.settle([REFUSED, REFUSED, WITHHELD])
        assert outbox.give_up_parked() == 0
        assert operations(outbox.freeze()) == [Release("1", 1)]

    def test_a_page_that_still_runs_is_not(self, outbox, lease):
        """It may come to its end before the worker leaves."""
        offer(outbox, "a", lease=lease)
        outbox.freeze()
        outbox.settle([REFUSED])
        outbox.give_up_parked()
        assert len(outbox) == 0
        end(outbox, lease)
        assert operations(outbox.freeze()) == [Release("1", 1)]

    def test_requests_of_no_page_are_counted_as_lost(self, outbox):
        """Nobody makes them again."""
        offer(outbox, "a", "b")
        outbox.freeze()
        outbox.settle([REFUSED, REFUSED])
        assert outbox.give_up_parked() == 2
        assert len(outbox) == 0


def test_after_a_rejoin_only_what_is_new_is_sent_again(outbox, lease):
    """As requests of no page, in the order in which they were made."""
    other = Lease("2", 1, 0, 0, b"")
    offer(outbox, "parked", lease=lease)
    outbox.freeze()
    outbox.settle([REFUSED])
    end(outbox, lease)
    outbox.add(Entry(page("sent")._replace(page="2"), other, "tag"))
    outbox.add(Entry(Ack("2", 1), other))
    outbox.add(Entry(page("seed", seed=b"1", seed_token=1)))
    outbox.freeze()
    outbox.add(Entry(StoreDead(b"dead", "why", page="2"), other))
    outbox.add(Entry(Seeded(1)))
    outbox.add(Entry(Claim(b"f")))
    outbox.rejoined()
    entries = outbox.freeze()
    assert operations(entries) == [
        page("parked"),
        page("sent"),
        StoreDead(b"dead", "why"),
        Claim(b"f"),
    ]
    assert [entry.tag for entry in entries] == ["parked", "tag", None, None]
    assert [entry.lease for entry in entries] == [None] * 4
