"""What each operation of a batch does, and when it does nothing."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from scrapy_redis_state.store.messages import (
    Ack,
    Answer,
    Bury,
    Check,
    Claim,
    Delay,
    Fail,
    HandBack,
    Release,
    StoreDead,
)
from tests.store.crawls import ENDS, LEASE_MS, MAX_DELIVERIES, ack, page, unfiltered


@pytest.fixture
def member(crawl):
    return crawl.member()


@pytest.fixture
def lease(member):
    """A request of priority 7 that the member holds."""
    return member.take_one(page("a", 7))


class TestStore:
    def test_a_request_is_kept_with_its_head_until_its_page_is_done(
        self, crawl, member
    ):
        """Priority and delivery count stand before the payload, also in flight."""
        assert member.answers(page("a", -3)) == (Answer.STORED,)
        (id,) = crawl.place("frontier")
        assert crawl.place("frontier") == {id: -3}
        assert crawl.entry(id) == b"-3;0;;a"
        lease = member.take_one()
        assert (lease.id, lease.payload) == (id, b"a")
        assert crawl.entry(id) == b"-3;0;;a"
        assert member.answers(ack(lease)) == (Answer.DONE,)
        assert crawl.client.hlen(crawl.key("requests")) == 0

    def test_a_filtered_request_is_stored_once(self, crawl, member):
        """Whoever sends it, whether it is pending, in flight or done."""
        other = crawl.member("w2")
        first = member.answers(page("a"), page("a"))
        assert first == (Answer.STORED, Answer.DUPLICATE)
        lease = member.take_one()
        assert other.answers(page("a")) == (Answer.DUPLICATE,)
        member.exchange(ack(lease))
        assert other.answers(page("a")) == (Answer.DUPLICATE,)
        assert crawl.push(page("a")) == (Answer.DUPLICATE,)
        assert crawl.summary.pending == 0

    def test_equal_requests_that_are_not_filtered_are_all_stored(self, member):
        """Each has an id of its own; none replaces another."""
        answers = member.answers(*[unfiltered("same")] * 1000)
        assert set(answers) == {Answer.STORED}
        assert len({lease.id for lease in member.take(1000)}) == 1000

    def test_payload_and_fingerprint_are_any_bytes(self, member):
        """Nothing is decoded on the way."""
        anything = bytes(range(256)) + b";1;2;"
        request = page("x", 1)._replace(payload=anything, fingerprint=anything)
        assert member.answers(request, request) == (Answer.STORED, Answer.DUPLICATE)
        assert member.take_one().payload == anything

    def test_a_request_nobody_can_run_is_stored_among_the_dead(self, crawl, member):
        """Its reason is kept, and it is never handed out."""
        assert member.answers(StoreDead(b"p", "no bytes", 4)) == (Answer.STORED,)
        assert crawl.dead_letters() == [
            {
                "payload": b"p",
                "reason": "no bytes",
                "priority": 4,
                "deliveries": 0,
                "worker": "w1",
            }
        ]
        assert member.take(1) == []

    def test_a_claim_only_marks(self, crawl, member):
        """A fingerprint is new once; nothing is put into the frontier."""
        assert member.answers(Claim(b"f"), Claim(b"f")) == (
            Answer.STORED,
            Answer.DUPLICATE,
        )
        assert crawl.push(Claim(b"f"), Claim(b"g")) == (
            Answer.DUPLICATE,
            Answer.STORED,
        )
        assert crawl.summary.pending == 0

    def test_a_check_only_asks(self, member):
        """The answers of a claim, and nothing is marked."""
        member.exchange(page("known"))
        checks = [Check(b"known"), Check(b"new"), Check(b"new")]
        expected = (Answer.DUPLICATE, Answer.STORED, Answer.STORED)
        assert member.answers(*checks) == expected
        assert member.answers(page("new")) == (Answer.STORED,)


class TestEndOfALease:
    @pytest.mark.parametrize("kind", ENDS)
    def test_only_its_holder_ends_it(self, crawl, member, lease, kind):
        """Another worker, another batch or a lease that has ended: nothing changes."""
        end = ENDS[kind]
        other = crawl.member("w2")
        assert other.answers(end(lease.id, lease.batch)) == (Answer.STALE,)
        assert member.answers(end(lease.id, lease.batch + 1)) == (Answer.STALE,)
        assert member.answers(end("99", lease.batch)) == (Answer.STALE,)
        assert crawl.where(lease.id) == "inflight"
        assert member.answers(end(lease.id, lease.batch)) == (Answer.DONE,)
        place = crawl.where(lease.id)
        assert member.answers(end(lease.id, lease.batch)) == (Answer.STALE,)
        assert crawl.where(lease.id) == place

    @pytest.mark.parametrize("kind", ENDS)
    def test_a_late_end_does_not_touch_the_next_delivery(self, crawl, member, kind):
        """The same worker may hold it again, under another batch."""
        first = member.take_one(page("a"))
        second = member.take_one(Release(first.id, first.batch))
        assert second.id == first.id
        assert member.answers(ENDS[kind](first.id, first.batch)) == (Answer.STALE,)
        assert crawl.where(first.id) == "inflight"

    def test_of_two_ends_in_one_batch_the_first_counts(self, crawl, member, lease):
        """The lease has ended when the second is looked at."""
        release = Release(lease.id, lease.batch)
        assert member.answers(release, ack(lease)) == (Answer.DONE, Answer.STALE)
        assert crawl.where(lease.id) == "frontier"
        assert crawl.summary.done == 0

    def test_an_ack_forgets_the_request_and_counts(self, crawl, member, lease):
        """The page is done."""
        assert member.answers(ack(lease)) == (Answer.DONE,)
        assert (crawl.where(lease.id), crawl.summary.done) == ("", 1)

    def test_an_ack_marks_what_ran_as_a_part_of_the_page(self, crawl, member, lease):
        """Together with it: a late one marks nothing."""
        late = Ack(lease.id, lease.batch + 1, (b"x",))
        assert member.answers(late, Check(b"x")) == (Answer.STALE, Answer.STORED)
        ack = Ack(lease.id, lease.batch, (b"x", b"y"))
        assert member.answers(ack, Check(b"x")) == (Answer.DONE, Answer.DUPLICATE)
        assert crawl.push(Claim(b"y")) == (Answer.DUPLICATE,)

    def test_a_release_puts_it_back_as_it_was(self, crawl, member, lease):
        """Same id, same priority, nothing counted."""
        member.exchange(Release(lease.id, lease.batch))
        assert crawl.place("frontier") == {lease.id: 7}
        assert crawl.entry(lease.id) == b"7;0;;a"

    def test_a_failure_is_counted_and_tried_again_later(self, crawl, member, lease):
        """It waits at least as long as asked, on the server's time."""
        seconds, micros = crawl.client.time()
        before = seconds * 1000 + micros // 1000
        member.exchange(Fail(lease.id, lease.batch, 30_000, "oops"))
        (due,) = crawl.place("delayed").values()
        assert before + 30_000 <= due < before + 40_000
        assert crawl.entry(lease.id) == b"7;1;;a"
        assert member.take(1) == []

    def test_a_request_that_fails_too_often_is_a_dead_letter(self, crawl, member):
        """The last reason and worker are kept, and how often it was delivered."""
        lease = member.take_one(page("a", 7))
        for count in range(MAX_DELIVERIES - 1):
            assert lease.deliveries == count
            fail = Fail(lease.id, lease.batch, 0, f"failure {count}")
            lease = member.take_one(fail)
        member.exchange(Fail(lease.id, lease.batch, 0, "the last"))
        assert crawl.where(lease.id) == "dead"
        (letter,) = crawl.dead_letters()
        assert (letter["reason"], letter["deliveries"]) == ("the last", MAX_DELIVERIES)
        assert (letter["worker"], letter["priority"]) == ("w1", 7)

    def test_a_buried_one_is_a_dead_letter_at_once(self, crawl, member, lease):
        """With the reason given."""
        member.exchange(Bury(lease.id, lease.batch, "not a page"))
        assert crawl.where(lease.id) == "dead"
        (letter,) = crawl.dead_letters()
        assert (letter["reason"], letter["payload"]) == ("not a page", b"a")


class TestDelay:
    def test_it_comes_back_later_and_uncounted(self, crawl, member, lease):
        """To any worker, its maker too."""
        assert member.take(1, Delay(lease.id, lease.batch, 60_000)) == []
        assert crawl.where(lease.id) == "delayed"
        crawl.client.zadd(crawl.key("delayed"), {lease.id: 1})
        taken = member.take_one()
        assert (taken.id, taken.deliveries, taken.payload) == (lease.id, 0, b"a")

    def test_a_suspect_stays_one(self, crawl, lease):
        """It is not handed out beside others when its time has come."""
        for number in range(MAX_DELIVERIES - 1):
            crawl.later(2 * LEASE_MS)
            crawl.reap()
            worker = crawl.member(f"w{number + 2}")
            (lease,) = worker.take(1, idle=True)
        worker.exchange(Delay(lease.id, lease.batch, 0))
        crawl.client.zadd(crawl.key("delayed"), {lease.id: 1})
        crawl.reap()
        assert crawl.where(lease.id) == "suspects"


class TestHandBack:
    def test_it_waits_for_a_worker_that_has_not_handed_it_back(
        self, crawl, member, lease
    ):
        """Nothing is counted; the same worker is not given it again."""
        other = crawl.member("w2")
        hand_back = HandBack(lease.id, lease.batch, 0, "unknown callback")
        assert member.take(1, hand_back) == []
        assert crawl.where(lease.id) == "delayed"
        crawl.client.zadd(crawl.key("delayed"), {lease.id: 1})
        taken = other.take_one()
        assert (taken.id, taken.deliveries, taken.payload) == (lease.id, 0, b"a")

    def test_it_is_dead_when_every_live_worker_has_handed_it_back(
        self, crawl, member, lease
    ):
        """Workers that died do not count."""
        crawl.member("dead")
        other = crawl.member("w2")
        crawl.outlive(member, other)
        member.exchange(HandBack(lease.id, lease.batch, 0, "unknown callback"))
        lease = other.take_one()
        other.exchange(HandBack(lease.id, lease.batch, 0, "unknown class"))
        assert crawl.where(lease.id) == "dead"
        (letter,) = crawl.dead_letters()
        assert letter["reason"] == "unknown class"

    def test_one_worker_alone_buries_it(self, crawl, member, lease):
        """There is nobody else to wait for."""
        member.exchange(HandBack(lease.id, lease.batch, 0, "unknown callback"))
        assert crawl.where(lease.id) == "dead"


@pytest.mark.parametrize("kind", [kind for kind in ENDS if kind != "ack"])
def test_an_entry_that_is_none_becomes_a_dead_letter(crawl, member, kind):
    """Garbage in place of a request does not stop the crawl, and is not lost."""
    lease = member.take_one(page("a"))
    crawl.client.hset(crawl.key("requests"), lease.id, b"garbage\xff")
    end = ENDS[kind](lease.id, lease.batch)
    assert member.answers(end, page("b")) == (Answer.DONE, Answer.STORED)
    assert crawl.where(lease.id) == "dead"
    (letter,) = crawl.dead_letters()
    assert letter["payload"] == b"garbage\xff"
    assert letter["reason"].startswith("not an entry")


def test_what_a_page_made_is_stored_before_its_end_is_known(crawl, member, lease):
    """Children and ack are one step, in this order; children may go out at once."""
    child = member.take_one(page("child", 1), page("other"), ack(lease))
    assert child.payload == b"child"
    assert crawl.summary.done == 1
    assert crawl.summary.pending == 1


def test_an_operation_that_is_malformed_leaves_no_trace(crawl, member):
    """A script is not rolled back: all fields are looked at before anything is set."""
    of_a_site = page("a")._replace(priority=True, site="example.com")
    with pytest.raises(ResponseError, match="field 2 of operation 1 is a boolean"):
        member.exchange(of_a_site)
    with pytest.raises(ResponseError, match="a boolean value"):
        member.exchange(page("b"), page("a")._replace(priority=True))
    again = crawl.member("w2")
    assert again.answers(page("a"), page("b")) == (Answer.STORED,) * 2
