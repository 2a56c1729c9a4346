"""Seen sets: one body of tests for every kind, then what is special about each."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot
from redis.exceptions import ResponseError

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import (
    Answer,
    Bury,
    Claim,
    Difference,
    Forget,
    JoinStatus,
    Store,
)
from scrapy_redis_state.store.seen import PER_SHARD, SeenSet
from scrapy_redis_state.store.server_check import check_seen_set
from tests.store.crawls import LEASE_MS, ack, page
from tests.store.seen_crawls import REVISIT_MS, finish, join

STORED, DUPLICATE = Answer.STORED, Answer.DUPLICATE


def bytes_of(rng: random.Random) -> bytes:
    return rng.randbytes(20)


@pytest.fixture(params=["exact", "packed", "bloom"])
def kind(request):
    return request.param


class TestEveryKind:
    def test_a_page_that_was_seen_stays_so_while_the_version_does(
        self, new_crawl, kind
    ):
        """What is added changes nothing for who remembers that others were seen."""
        crawl = new_crawl(kind, capacity=10_000)
        member = join(crawl)
        first = member.exchange(page("a")).summary.seen_version
        crawl.push(page("b"), Claim(b"c"))
        held = member.take(2)
        assert member.exchange(*map(ack, held)).summary.seen_version == first

    def test_another_generation_has_another_version(self, new_crawl, kind):
        """Of the next run as well as of a reset."""
        crawl = new_crawl(kind, capacity=10_000)
        versions = [join(crawl).exchange().summary.seen_version]
        finish(crawl)
        versions.append(join(crawl, "w2").exchange().summary.seen_version)
        with CrawlState(crawl.client, crawl.keys) as state:
            state.reset(force=True)
        versions.append(join(crawl, "w3").exchange().summary.seen_version)
        assert versions == sorted(set(versions))

    def test_another_epoch_has_another_version(self, new_crawl, kind):
        """And the reply that tells of the epoch tells of the version."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        member = join(crawl, revisit_ms=REVISIT_MS)
        before = member.exchange(page("a")).summary
        crawl.ago("epoch_began", REVISIT_MS // 2)
        after = member.exchange(page("a")).summary
        assert after.epoch > before.epoch
        assert after.seen_version > before.seen_version

    @pytest.mark.parametrize("kind", ["exact", "packed"])
    @pytest.mark.parametrize("revisit_ms", [0, REVISIT_MS])
    def test_a_page_that_is_forgotten_makes_another_version(
        self, new_crawl, kind, revisit_ms
    ):
        """In the same epoch; one that was not seen makes none."""
        crawl = new_crawl(kind, capacity=10_000)
        member = join(crawl)
        before = member.exchange(page("a", revisit_ms=revisit_ms)).summary
        assert crawl.push(Forget(b"b", b"b")) == (Answer.STALE,)
        assert member.exchange().summary.seen_version == before.seen_version
        assert crawl.push(Forget(b"a", b"a")) == (Answer.DONE,)
        after = member.exchange().summary
        assert after.seen_version > before.seen_version
        assert after.epoch == before.epoch

    def test_a_page_is_stored_once(self, new_crawl, kind):
        """Whoever finds it."""
        crawl = new_crawl(kind, capacity=10_000)
        one, two = join(crawl), join(crawl, "w2")
        assert one.answers(page("a"), page("b")) == (STORED, STORED)
        assert two.answers(page("b"), page("c")) == (DUPLICATE, STORED)
        assert crawl.summary.seen == 3

    def test_a_claim_and_a_request_are_of_one_set(self, new_crawl, kind):
        """A program that claims a fingerprint keeps workers from storing it."""
        crawl = new_crawl(kind, capacity=10_000)
        member = join(crawl)
        assert crawl.push(Claim(b"a")) == (STORED,)
        assert member.answers(Store(b"", fingerprint=b"a"), Claim(b"b")) == (
            DUPLICATE,
            STORED,
        )

    def test_a_new_generation_has_seen_nothing(self, new_crawl, kind):
        """And of the old one nothing is left."""
        crawl = new_crawl(kind, capacity=10_000)
        crawl.push(*(Claim(b"%d" % n) for n in range(100)))
        with CrawlState(crawl.client, crawl.keys) as state:
            state.reset()
            assert state.claim_fingerprint(b"1")
            assert state.status().seen == 1
            assert list(crawl.client.scan_iter("seen:*:1*")) == []

    def test_the_next_run_has_seen_nothing_of_the_last(self, new_crawl, kind):
        """Not even of its earlier epochs, and before anybody has tidied up."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        crawl.push(Claim(b"old"))
        crawl.ago("epoch_began", REVISIT_MS // 2)
        crawl.push(Claim(b"new"))
        finish(crawl)
        assert crawl.push(Claim(b"old"), Claim(b"new")) == (STORED, STORED)

    def test_a_pause_longer_than_the_time_forgets_all(self, new_crawl, kind):
        """However few calls there were meanwhile."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        crawl.push(Claim(b"a"))
        crawl.ago("epoch_began", 9 * REVISIT_MS)
        assert crawl.push(Claim(b"a")) == (STORED,)
        crawl.tidy()
        assert (
            len({key.split(b"}:")[1] for key in crawl.client.scan_iter("seen:*")}) == 1
        )

    def test_a_program_begins_the_next_generation_as_the_last_was(
        self, new_crawl, kind
    ):
        """The workers of the spider would be refused by another seen set."""
        crawl = new_crawl(kind, capacity=10_000)
        join(crawl)
        finish(crawl)
        state = CrawlState(crawl.client, CrawlKeys(crawl.keys.crawl))
        assert state.push("http://a.example/")
        assert state.status().seen_set == crawl.keys.seen_set.spec
        assert state.status().generation == 2

    def test_forgetting_does_not_begin_a_generation(self, new_crawl, kind):
        """What a finished crawl has is still to be looked at."""
        crawl = new_crawl(kind, capacity=10_000)
        join(crawl)
        state = CrawlState(crawl.client, crawl.keys)
        state.claim("http://a.example/")
        finish(crawl)
        if kind != "bloom":
            assert state.forget("http://a.example/")
        assert state.status().generation == 1
        assert state.status().summary.status == "finished"

    def test_a_program_that_is_the_last_to_leave_tidies_up(self, new_crawl, kind):
        """No key is left that never expires."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl).leave()
        crawl.set(status="running")
        with CrawlState(crawl.client, crawl.keys) as state:
            state.push_many(f"http://a.example/{n}" for n in range(50))
            state.ack(*state.lease(50))
        assert crawl.summary.status == "finished"
        assert min(crawl.client.pttl(key) for key in crawl.client.scan_iter()) > 0

    def test_a_reaper_is_not_stopped_by_what_another_kind_left(self, new_crawl, kind):
        """An old epoch's key is deleted, whatever is in it."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        crawl.push(Claim(b"a"))
        crawl.ago("epoch_began", REVISIT_MS // 2)
        crawl.push(Claim(b"a"))
        state = CrawlState(crawl.client, CrawlKeys(crawl.keys.crawl))
        state.reset(force=True)
        crawl.client.set(crawl.keys.seen(1), "left over")
        assert state.reap().summary.pending == 0

    def test_all_keys_of_a_finished_crawl_expire(self, new_crawl, kind):
        """Those of the seen set as well, and none before the crawl itself."""
        crawl = new_crawl(kind, capacity=10_000)
        member = join(crawl)
        member.exchange(*(Claim(b"%d" % n) for n in range(100)))
        member.leave()
        crawl.tidy()
        keys = list(crawl.client.scan_iter())
        assert len(keys) >= 2
        lives = {key: crawl.client.pttl(key) for key in keys}
        assert min(lives.values()) > 0
        assert lives[crawl.key("crawl").encode()] > max(lives.values()) - 1000

    def test_pages_are_forgotten_after_their_time(self, new_crawl, kind):
        """Not before, and no later than one and a half times that."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        assert crawl.push(Claim(b"a")) == (STORED,)
        for _ in range(2):
            crawl.ago("epoch_began", REVISIT_MS // 2)
            assert crawl.push(Claim(b"a")) == (DUPLICATE,)
        crawl.ago("epoch_began", REVISIT_MS // 2)
        assert crawl.push(Claim(b"a")) == (STORED,)
        crawl.tidy()
        epochs = {key.split(b"}:")[1][:1] for key in crawl.client.scan_iter("seen:*")}
        assert epochs <= {b"2", b"3", b"4"}

    def test_a_duplicate_does_not_renew_a_page(self, new_crawl, kind):
        """A page that is linked all the time is crawled again all the same."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        answers = []
        for _ in range(7):
            answers += crawl.push(Claim(b"a"))
            crawl.ago("epoch_began", REVISIT_MS // 2)
        assert answers == [STORED, DUPLICATE, DUPLICATE] * 2 + [STORED]

    def test_a_page_is_forgotten_on_request(self, new_crawl, kind):
        """It can be stored again, whatever epoch it was seen in."""
        crawl = new_crawl(kind, capacity=10_000, revisits=True)
        join(crawl, revisit_ms=REVISIT_MS)
        state = CrawlState(crawl.client, crawl.keys)
        urls = ["http://a.example/1", "http://a.example/2"]
        assert state.claim_many(urls) == [True, True]
        crawl.ago("epoch_began", REVISIT_MS // 2)
        if kind == "bloom":
            with pytest.raises(Refused, match="cannot forget"):
                state.forget(urls[0])
            return
        assert state.forget_many([urls[0], "http://a.example/3"]) == [True, False]
        assert state.claim_many(urls) == [True, False]

    def test_another_seen_set_is_refused(self, new_crawl, kind):
        """A worker with other settings is told both."""
        crawl = new_crawl(kind, capacity=10_000)
        join(crawl)
        reply = crawl.join("w2", identity={"seen": "packed:777"})
        (difference,) = reply.differences
        assert difference == Difference("seen", crawl.keys.seen_set.spec, "packed:777")

    def test_a_program_goes_by_what_the_crawl_has(self, new_crawl, kind):
        """Unless it asks for something else."""
        crawl = new_crawl(kind, capacity=10_000)
        join(crawl).exchange(Claim(b"a"))
        name, client = crawl.keys.crawl, crawl.client
        plain = CrawlState(client, CrawlKeys(name))
        assert plain.claim_fingerprint(b"b")
        assert not plain.claim_fingerprint(b"a")
        odd = CrawlState(client, CrawlKeys(name, "", SeenSet("packed", 777)))
        with pytest.raises(Refused, match="packed:777"):
            odd.claim_fingerprint(b"a")


class TestPacked:
    def test_a_crawl_abandoned_long_ago_ends_as_one_does(self, new_crawl):
        """Its dead letters can be looked at for the usual time."""
        crawl = new_crawl("packed", capacity=10_000)
        member = join(crawl)
        lease = member.take_one(page("a"))
        member.exchange(Bury(lease.id, lease.batch, "given up"))
        crawl.later(2 * LEASE_MS)
        crawl.set(last_time=1)
        reply = crawl.join("w2", given=True, identity={"seen": "packed:10000"})
        assert reply.status is JoinStatus.FINISHED
        crawl.tidy()
        assert crawl.dead_letters()
        assert crawl.client.pttl(crawl.key("crawl")) > 0

    def test_its_sets_stay_packed_at_capacity(self, new_crawl):
        """So that a page takes the 8 bytes of its hash and a little."""
        crawl, rng = new_crawl("packed", capacity=40_000), random.Random(1)
        for _ in range(80):
            crawl.push(*(Claim(bytes_of(rng)) for _ in range(500)))
        keys = list(crawl.client.scan_iter("seen:*"))
        assert len(keys) == -(-40_000 // PER_SHARD)
        kinds = {crawl.client.object("encoding", key) for key in keys}
        assert kinds == {b"intset"}
        assert crawl.summary.seen == 40_000

    def test_its_keys_are_on_one_node_of_a_cluster(self):
        """All that one call may need."""
        keys = CrawlKeys("a", "p:", SeenSet("packed", 10_000, revisits=True))
        used = keys.of_seen_set(5)
        used.on_the_wire([Claim(b"%d" % n) for n in range(500)])
        assert len(used.keys) == 3 * keys.seen_set.shards
        slots = {key_slot(key.encode()) for key in keys.for_script(5) + used.keys}
        assert len(slots) == 1

    @pytest.mark.parametrize(
        ("kind", "fields"),
        [("packed", {"capacity": 10_000}), ("exact", {"revisits": True})],
    )
    def test_a_fingerprint_without_its_keys_is_refused(self, new_crawl, kind, fields):
        """Before anything is written."""
        crawl = new_crawl(kind, **fields)
        member = join(crawl)
        crawl.keys = CrawlKeys(crawl.keys.crawl)
        with pytest.raises(Exception, match="has no key for its fingerprint"):
            member.answers(page("a"))
        assert crawl.summary.pending == 0

    def test_a_server_that_packs_less_is_warned_about(self, start_bloom):
        """With the setting and its remedy; the usual one is fine."""
        client, seen = start_bloom().client(), SeenSet("packed")
        assert check_seen_set(client, "", seen) == []
        client.config_set("set-max-intset-entries", 256)
        (found,) = check_seen_set(client, "", seen)
        assert not found.fatal
        assert "CONFIG SET set-max-intset-entries 512" in found.text


class TestBloom:
    @pytest.fixture
    def crawl(self, new_crawl):
        return new_crawl("bloom", capacity=20_000, error_rate=0.01)

    def test_few_new_pages_are_taken_for_seen_ones(self, crawl):
        """At capacity, of 20 000 no more than one and a half times the rate."""
        rng = random.Random(2)
        for _ in range(40):
            crawl.push(*(Claim(bytes_of(rng)) for _ in range(500)))
        taken = 0
        for _ in range(40):
            probes = [Claim(bytes_of(rng)) for _ in range(500)]
            answers = crawl.push(*probes)
            taken += answers.count(DUPLICATE)
        assert 0 < taken <= 20_000 * 0.015

    def test_a_filter_that_is_full_grows(self, crawl):
        """Five times its capacity later the rate is still as it was set."""
        rng = random.Random(3)
        for _ in range(200):
            crawl.push(*(Claim(bytes_of(rng)) for _ in range(500)))
        probes = [crawl.push(Claim(bytes_of(rng)))[0] for _ in range(2000)]
        assert probes.count(DUPLICATE) <= 2000 * 0.02
        info = crawl.client.execute_command("BF.INFO", crawl.keys.seen(1))
        assert dict(zip(info[::2], info[1::2], strict=True))[b"Capacity"] > 100_000

    def test_a_start_request_is_never_taken_for_a_seen_one(self, crawl):
        """The set of start requests decides, not the filter."""
        member = join(crawl)
        crawl.set(seeding="open")
        token = member.exchange(seeder=True).summary.seed_token
        member.exchange(Claim(b"a"))
        seed = Store(b"s", 0, b"a", seed=b"a1", seed_token=token)
        again = seed._replace(seed=b"a2")
        assert member.answers(seed, seed, again) == (STORED, DUPLICATE, DUPLICATE)

    def test_a_filter_that_takes_no_more_refuses(self, crawl):
        """The request is sent again later; nothing of the batch is done by half."""
        member = join(crawl)
        crawl.set(seeding="open")
        token = member.exchange(seeder=True).summary.seed_token
        client, key = crawl.client, crawl.keys.seen(1)
        client.delete(key)
        client.execute_command("BF.RESERVE", key, 0.01, 1, "NONSCALING")
        seed = Store(b"s", 0, b"a", seed=b"a1", seed_token=token)
        full = member.answers(
            Claim(b"first"), page("a"), seed, Claim(b"b"), Store(b"unfiltered")
        )
        refused = Answer.REFUSED
        assert full == (STORED, refused, refused, refused, STORED)
        client.delete(key)
        assert member.answers(seed, Claim(b"b")) == (STORED, STORED)

    def test_a_filter_that_cannot_be_made_is_not_begun(self, new_crawl):
        """The error says which; nothing is stored without it."""
        crawl = new_crawl("bloom", capacity=1000, error_rate=2)
        member = join(crawl)
        expected = "no Bloom filter for 1000 pages at 2: ERR"
        for _ in range(2):
            with crawl.unchanged(), pytest.raises(ResponseError, match=expected):
                member.exchange(page("a"))
        with pytest.raises(ResponseError, match=expected):
            crawl.push(Claim(b"a"))
        assert crawl.summary.pending == 0

    def test_workers_let_it_grow_together(self, crawl):
        """However many there are, each page is stored once, and nearly all are."""
        rng = random.Random(4)
        pages = [bytes_of(rng) for _ in range(60_000)]

        def run(number: int) -> int:
            member, stored = join(crawl, f"w{number}"), 0
            for first in range(0, len(pages), 500):
                some = pages[first : first + 500]
                stored += member.answers(*map(Claim, some)).count(STORED)
            return stored

        with ThreadPoolExecutor(4) as threads:
            stored = sum(threads.map(run, range(4)))
        assert 60_000 * 0.99 <= stored <= 60_000
        assert crawl.summary.seen == stored

    def test_a_server_without_it_is_refused(self, server):
        """With the remedy, before anything is written."""
        (found,) = check_seen_set(server.client(), "", SeenSet("bloom"))
        assert found.fatal
        assert "use 'packed'" in found.text

    @pytest.mark.parametrize("limit", [0, 100_000_000])
    def test_a_filter_larger_than_the_memory_is_refused(self, start_bloom, limit):
        """A server that is asked for it may end, or be full for ever."""
        client = start_bloom().client()
        client.config_set("maxmemory", limit)
        capacity = 100_000_000 if limit else 10**14
        (found,) = check_seen_set(client, "", SeenSet("bloom", capacity))
        assert found.fatal
        assert f"REDIS_STATE_SEEN_CAPACITY = {capacity:,} at" in found.text
        assert check_seen_set(client, "", SeenSet("bloom", capacity // 10**7)) == []

    def test_a_server_with_it_is_taken(self, start_bloom):
        """The one of the tests, for example."""
        assert check_seen_set(start_bloom().client(), "", SeenSet("bloom")) == []


class TestSpec:
    @given(
        st.builds(
            SeenSet,
            st.sampled_from(["exact", "bloom", "packed"]),
            st.integers(1000, 10**10),
            st.floats(1e-9, 0.1),
            st.booleans(),
        )
    )
    def test_it_is_read_as_it_was_written(self, seen):
        """As far as it matters to that kind."""
        assert SeenSet.parse(seen.spec).spec == seen.spec

    @pytest.mark.parametrize("spec", ["", "cuckoo", "exact:1:2:3", "packed:-1"])
    def test_another_one_is_refused(self, spec):
        """As from a later version."""
        with pytest.raises(ValueError, match="seen set"):
            SeenSet.parse(spec)
