"""What those who run crawls do: dead letters, pause, peek, delete."""

from __future__ import annotations

import pytest

from scrapy_redis_state.codec import describe_payload
from scrapy_redis_state.codec.renew import without_meta
from scrapy_redis_state.store import CrawlState, operator_scripts
from scrapy_redis_state.store.bloom import expected_losses
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.crawls import find_crawls
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Bury, StoreDead
from scrapy_redis_state.store.requests import store_operation
from scrapy_redis_state.store.seen import PER_SHARD, SeenSet
from tests.store.bloom import bloom_module
from tests.store.crawls import LEASE_MS, TTL_MS, Crawl, ack, page

DAY_MS = 86_400_000


def url(number):
    return f"http://a.example/{number}"


async def bury(state, *reasons, **fields):
    """Push requests and give them up."""
    await state.push_many({"url": url(n), **fields} for n in range(len(reasons)))
    for leased, reason in zip(await state.lease(len(reasons)), reasons, strict=True):
        assert await state.bury(leased, reason)


def bury_and_leave(crawl, **fields):
    """Give up the one request that there is; that finishes the crawl."""
    member = crawl.member("undertaker", **fields)
    lease = member.take_one()
    member.exchange(Bury(lease.id, lease.batch, "it failed"))
    assert member.leave().summary.status == "finished"


class TestDeadLetters:
    async def test_they_are_listed_with_all_that_is_known(self, crawl, state):
        """Oldest first."""
        await bury(state, "one", "two: é\nmore", priority=7, meta={"a": 1})
        (later,) = await state.dead_letters(reason="two")
        crawl.client.zincrby(crawl.key("dead"), 1000, later.id)
        one, two = await state.dead_letters()
        assert (one.url, one.reason) == (url(0), "one")
        assert (two.url, two.reason) == (url(1), "two: é\nmore")
        assert (two.priority, two.deliveries) == (7, 0)
        assert two.worker
        assert two.fields["meta"] == {"a": 1}
        assert one.given_up_at > 1_600_000_000

    async def test_some_are_found_by_id_by_reason_and_by_url(self, state):
        """All that is said must be so."""
        await bury(state, "http 500", "http 404", "timeout")
        (wanted,) = await state.dead_letters(reason="http", match=r"/1$")
        assert wanted.url == url(1)
        assert await state.dead_letters(ids=[wanted.id]) == [wanted]
        assert await state.dead_letters(ids=[wanted.id], reason="timeout") == []
        assert await state.dead_letters(ids=["1"]) == []

    async def test_thousands_are_listed(self, state, crawl):
        """More than one call tells of, each once."""
        crawl.push(*(StoreDead(b"%d" % n, "no code") for n in range(3000)))
        found = await state.dead_letters()
        assert len({one.id for one in found}) == len(found) == 3000

    async def test_requeued_ones_run_again(self, state):
        """With their priority, nothing counted, though they were seen; once."""
        await state.push({"url": url(0), "priority": 5, "meta": {"retry_times": 2}})
        (leased,) = await state.lease()
        await state.fail(leased, "it failed", delay_secs=0)
        await state.reap()
        (leased,) = await state.lease()
        await state.bury(leased, "given up")
        done = await state.requeue_dead(reason="given up")
        assert (done.count, list(done.skipped)) == (1, [])
        (again,) = await state.lease(5)
        assert (again.priority, again.deliveries, again.id) == (5, 0, leased.id)
        assert again.fields["url"] == url(0)
        assert again.fields.get("meta", {}) == {}
        assert await state.ack(again) == [True]
        assert not await state.push(url(0))
        assert await state.dead_letters() == []

    async def test_one_that_died_again_meanwhile_is_not_meant(self, crawl, state):
        """A tool that saw the first letter leaves the second alone."""
        await bury(state, "first")
        seen = await state.dead_letters()
        crawl.client.zincrby(crawl.key("dead"), 1, seen[0].id)
        steps = CrawlState(crawl.client, crawl.keys)._steps
        assert crawl.run(_requeue(steps.keys, seen)).count == 0
        assert len(await state.dead_letters()) == 1

    async def test_what_no_worker_could_run_stays(self, crawl, state):
        """It would only die again; the others go."""
        crawl.push(StoreDead(b"garbage", "no code"))
        await bury(state, "it failed")
        done = await state.requeue_dead()
        assert done.count == 1
        assert "(no URL): " in done.skipped[0]
        (left,) = await state.dead_letters()
        assert (left.reason, left.url, left.fields) == ("no code", "", {})

    async def test_information_that_is_garbage_is_a_letter_too(self, crawl, state):
        """Its id is known, and it can be dropped."""
        await bury(state, "it failed")
        (letter,) = await state.dead_letters()
        crawl.client.hset(crawl.key("deadinfo"), letter.id, b"\xc1")
        (letter,) = await state.dead_letters()
        assert letter.reason == "what was kept of it cannot be read"
        assert (await state.requeue_dead()).count == 0
        assert await state.drop_dead(ids=[letter.id]) == 1

    async def test_dropped_ones_are_gone(self, state):
        """Their pages are still seen."""
        await bury(state, "a", "b", "b")
        assert await state.drop_dead(reason="b") == 2
        assert [one.reason for one in await state.dead_letters()] == ["a"]
        assert not await state.push(url(1))

    async def test_a_finished_crawl_goes_on_with_them(self, crawl, state):
        """It does not expire any more, and finishes when they are done."""
        crawl.push(store_operation(url(0)))
        bury_and_leave(crawl, given=True)
        assert crawl.client.pttl(crawl.key("crawl")) > 0
        assert (await state.requeue_dead()).count == 1
        assert crawl.status().summary.status == "running"
        for name in ("crawl", "frontier", "requests", "seen"):
            assert crawl.client.pttl(crawl.key(name)) == -1, name
        late = crawl.member("late", given=True)
        assert late.joined.status == "resumed"
        assert late.exchange(ack(late.take_one())).status == "ok"
        assert late.leave().summary.status == "finished"
        assert crawl.client.pttl(crawl.key("seen")) > 0

    async def test_nothing_put_back_leaves_a_finished_crawl_finished(
        self, crawl, state
    ):
        """There is nothing to go on with."""
        crawl.push(StoreDead(b"garbage", "no code"))
        crawl.finish()
        assert (await state.requeue_dead()).count == 0
        assert crawl.status().summary.status == "finished"

    def test_a_finished_crawl_with_many_keys_cannot_go_on(self, server, crawl_name):
        """A packed seen set is about to expire, bit by bit."""
        packed = SeenSet("packed", capacity=10 * PER_SHARD)
        crawl = Crawl(server.client(), crawl_name)
        crawl.keys = CrawlKeys(crawl_name, seen_set=packed)
        identity = {"seen": packed.spec}
        with CrawlState(sync_client(server.url), crawl.keys) as state:
            state.push(url(1))
            bury_and_leave(crawl, identity=identity)
            with pytest.raises(Refused, match="its seen set expires: push the URLs"):
                state.requeue_dead()
            assert len(state.dead_letters()) == 1
        assert crawl.status().summary.status == "finished"

    async def test_there_are_none_without_a_crawl(self, state):
        """Nothing is made by looking."""
        assert await state.dead_letters() == []
        assert await state.dead_letters(ids=["1"]) == []
        assert (await state.requeue_dead()).count == 0
        assert await state.drop_dead() == 0
        assert (await state.status()).generation == 0


def _requeue(keys, letters):
    return operator_scripts.dead_requeue(
        keys, 1, [(one, one.payload) for one in letters]
    )


@pytest.mark.parametrize(
    "meta", [{"retry_times": 2, "a": (1, b"\xff", 2**80)}, {"a": 1}, {}]
)
def test_retries_are_left_out_of_a_payload_and_nothing_else(meta):
    """Whatever else is in it."""
    request = {"url": url(1), "meta": meta, "body": b"x" * 3000, "callback": "parse"}
    payload = store_operation(request).payload
    before = describe_payload(payload)
    after = describe_payload(without_meta(payload, ["retry_times"]))
    before["meta"].pop("retry_times", None)
    assert after.pop("meta", {}) == before.pop("meta")
    assert after == before


class TestPause:
    async def test_nothing_is_handed_out_meanwhile(self, state, connect):
        """What is leased may end, more may be stored, and then it goes on."""
        await state.push_many([url(0), url(1)])
        (leased,) = await state.lease(1)
        operator = connect()
        assert await operator.pause()
        assert not await operator.pause()
        assert await state.lease(1) == []
        assert await state.ack(leased) == [True]
        assert await state.push(url(2))
        assert (await state.status()).summary.status == "paused"
        assert await operator.resume()
        assert not await operator.resume()
        assert [one.url for one in await state.lease(5)] == [url(1), url(2)]

    async def test_a_crawl_is_drained_and_only_a_resume_ends_that(self, crawl, state):
        """A pause is refused, as it would let workers stay."""
        crawl.member("w1")
        assert await state.pause()
        assert await state.drain()
        assert not await state.drain()
        with pytest.raises(Refused, match="is draining, which holds it already"):
            await state.pause()
        assert (await state.status()).summary.status == "draining"
        assert await state.push("http://a.example/")
        assert await state.lease() == []
        assert await state.resume()
        assert not await state.resume()
        assert (await state.status()).summary.status == "running"
        assert await state.drain()
        await state.reset(force=True)
        assert (await state.status()).summary.status == "running"

    async def test_a_paused_crawl_is_not_over(self, crawl, state):
        """Though nothing is left: those who paused it may mean to add more."""
        crawl.push(page("a"))
        member = crawl.member()
        member.exchange(ack(member.take_one()))
        await state.pause()
        assert not member.exchange().summary.drained
        await state.resume()
        assert member.exchange().summary.drained

    async def test_only_a_crawl_that_goes_on_can_be_paused(self, crawl, state):
        """Else there is an error."""
        for call in (state.pause, state.drain, state.resume):
            with pytest.raises(Refused, match="There is no crawl"):
                await call()
        crawl.push(page("a"))
        crawl.finish()
        with pytest.raises(Refused, match="is finished"):
            await state.pause()


class TestPeek:
    async def test_it_shows_what_is_leased_next(self, crawl, state):
        """In that order, and changes nothing."""
        await state.push_many([url(0), url(1)])
        await state.push(url(2), priority=9)
        with crawl.unchanged():
            seen = await state.peek(2)
        assert [(one.url, one.priority) for one in seen] == [(url(2), 9), (url(0), 0)]
        assert [one.id for one in await state.lease(2)] == [one.id for one in seen]

    async def test_garbage_is_passed_over(self, crawl, state):
        """It is no request."""
        await state.push_many([url(0), url(1)])
        ids = sorted(crawl.place("frontier"))
        crawl.client.hset(crawl.key("requests"), ids[1], b"garbage")
        assert [one.url for one in await state.peek()] == [url(1)]
        crawl.client.flushall()

    async def test_nothing_is_shown_where_nothing_is(self, state):
        """Of no crawl, or none wanted."""
        assert await state.peek() == []
        await state.push(url(1))
        assert await state.peek(0) == []


class TestDelete:
    async def test_no_key_is_left(self, crawl, state):
        """Whatever it had."""
        await bury(state, "it failed")
        await state.push(url(5))
        assert await state.delete(force=True)
        assert [*crawl.client.scan_iter()] == []
        assert not await state.delete()
        assert await state.push(url(5))

    @pytest.mark.parametrize("finished", [True, False])
    def test_shards_of_a_packed_set_go_too(self, server, crawl_name, finished):
        """Those of earlier generations that nobody tidied, and of one that expires."""
        packed = SeenSet("packed", capacity=3000 * PER_SHARD)
        keys = CrawlKeys(crawl_name, seen_set=packed)
        crawl = Crawl(server.client(), crawl_name)
        crawl.keys = keys
        with CrawlState(sync_client(server.url), keys) as state:
            state.push_many(url(n) for n in range(300))
            if finished:
                for leased in state.lease(300):
                    state.ack(leased)
                crawl.set(seeding="done", finished_ttl_ms=TTL_MS)
        with CrawlState(sync_client(server.url), keys) as state:
            assert state.status().summary.status == (
                "finished" if finished else "running"
            )
            assert state.delete()
        assert [*server.client().scan_iter()] == []

    async def test_live_workers_are_in_the_way(self, crawl, state):
        """Unless it is forced: they learn that their crawl is gone."""
        crawl.push(page("a"))
        member = crawl.member()
        with pytest.raises(Refused, match="has 1 live workers: stop them first"):
            await state.delete()
        assert crawl.summary.pending == 1
        assert await state.delete(force=True)
        assert member.exchange().status == "rejoin"
        assert crawl.join("w2", token="token of w1", generation=1).status == "lost"

    async def test_who_begins_to_use_it_meanwhile_keeps_it(self, crawl):
        """Between the two calls of a deletion."""
        crawl.push(page("a"))
        call = _delete(crawl, epoch=1)
        assert crawl.run(call).status == "tidy"
        crawl.push(page("b"))
        assert crawl.run(_delete(crawl, epoch=2)).status == "used"
        assert crawl.summary.pending == 1

    async def test_it_may_ask_for_a_crawl_that_nobody_used_for_long(self, crawl, state):
        """Then workers that never left do not count."""
        crawl.push(page("a"))
        crawl.member()
        with pytest.raises(Refused, match="used more recently"):
            await state.delete(unused_secs=86_400)
        for field in ("last_time", "epoch_began"):
            crawl.ago(field, DAY_MS + LEASE_MS)
        with pytest.raises(Refused, match="used more recently"):  # pushed to
            await state.delete(unused_secs=86_400)
        crawl.ago("pushed_at", DAY_MS)
        with crawl.unchanged():
            assert await state.delete(unused_secs=86_400, dry_run=True)
        assert await state.delete(unused_secs=86_400)
        assert [*crawl.client.scan_iter()] == []

    async def test_a_dry_run_changes_nothing(self, crawl, state):
        """It says what would become of it."""
        assert not await state.delete(dry_run=True)
        await state.push(url(1))
        with crawl.unchanged():
            assert await state.delete(dry_run=True)

    async def test_keys_without_a_crawl_are_removed(self, crawl, state):
        """Somebody else removed its hash."""
        await state.push(url(1))
        crawl.client.delete(crawl.key("crawl"))
        assert await state.delete()
        assert [*crawl.client.scan_iter()] == []


def _delete(crawl, epoch):
    return operator_scripts.delete(crawl.keys, epoch, "token of a deletion")


def test_all_crawls_are_found(server, crawl_name):
    """Of one prefix, or of any; no other keys."""
    client = server.client()
    for prefix in ("", crawl_name, f"{crawl_name}*"):
        with CrawlState.connect(
            server.url, crawl=f"{crawl_name}:1", prefix=prefix
        ) as state:
            state.push(url(1))
    client.hset(f"{crawl_name}sess:a.example:crawl:", "x", 1)

    def found(prefix):
        return [(keys.prefix, keys.crawl) for keys in find_crawls(client, prefix)]

    crawl = f"{crawl_name}:1"
    everything = [("", crawl), (f"{crawl_name}*", crawl), (crawl_name, crawl)]
    assert sorted(found(None)) == sorted(everything)
    assert found("") == [("", crawl)]
    assert found(f"{crawl_name}*") == [(f"{crawl_name}*", crawl)]


@pytest.mark.one_server
@pytest.mark.parametrize(("capacity", "count"), [(20_000, 20_000), (5_000, 20_000)])
def test_losses_of_a_bloom_filter_are_as_expected(fresh_server, capacity, count):
    """Also after it grew."""
    server = fresh_server("redis", extra_args=["--loadmodule", str(bloom_module())])
    client = server.client()
    client.execute_command("BF.RESERVE", "f", 0.02, capacity, "EXPANSION", 2)
    lost = tried = 0
    while tried - lost < count:
        pipeline = client.pipeline(transaction=False)
        for number in range(1000):
            pipeline.execute_command("BF.ADD", "f", f"{tried + number}")
        lost += sum(not new for new in pipeline.execute())
        tried += 1000
    seen = SeenSet("bloom", capacity, 0.02)
    expected = expected_losses(seen, tried - lost)
    assert expected / 2 < lost < expected * 2
    assert expected_losses(seen, 0) == 0
