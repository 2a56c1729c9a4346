"""The crawl for producers and tools: one body for blocking calls and asyncio."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.http import JsonRequest
from scrapy.utils.request import fingerprint

from scrapy_redis_state.store import AsyncCrawlState, CrawlState, url_fingerprint
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import JoinStatus

URL = "http://shop.example/a"


def url(number):
    return f"http://shop.example/{number}"


class TestProducer:
    async def test_a_request_is_pushed_once(self, state):
        """True for one that is new; canonically equal URLs are the same."""
        assert await state.push("http://shop.example/?a=1&b=2")
        assert not await state.push("http://shop.example/?b=2&a=1#top")
        assert await state.size() == 1

    async def test_many_are_pushed_in_order(self, state):
        """With an answer for each; more than one call can carry."""
        urls = [url(number) for number in range(1200)]
        assert await state.push_many(urls[:10]) == [True] * 10
        answers = await state.push_many(urls)
        assert answers == [False] * 10 + [True] * 1190
        assert [one.url for one in await state.lease(1200)] == urls

    async def test_nothing_is_pushed_by_an_empty_list(self, state):
        """And nothing is asked of the server."""
        assert await state.push_many([]) == []
        assert (await state.status()).generation == 0

    async def test_a_request_may_have_all_its_fields(self, state):
        """What a worker gets is what was pushed."""
        request = {
            "url": URL,
            "method": "post",
            "body": "é=1",
            "headers": {"Accept": ["a", "b"], "x-n": 1},
            "cookies": {"sid": "1"},
            "meta": {"depth": 2, "tuple": (1, b"\xff")},
            "cb_kwargs": {"page": 3},
            "callback": "parse_item",
            "priority": 4,
            "dont_filter": True,
        }
        assert await state.push(request)
        (leased,) = await state.lease()
        assert (leased.priority, leased.url) == (4, URL)
        fields = leased.fields
        assert (fields["method"], fields["body"]) == ("POST", "é=1".encode())
        assert fields["headers"] == {b"Accept": [b"a", b"b"], b"X-N": [b"1"]}
        assert fields["meta"] == request["meta"]
        assert fields["callback"] == "parse_item"

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            ("shop.example/a", "needs a scheme: 'shop.example/a'"),
            ({"url": None}, "needs a scheme: None"),
            ({"method": "GET"}, "needs a scheme: None"),
            ({"url": URL, "colour": 1}, "no field 'colour': use url, "),
            ({"url": URL, "priority": "high"}, "priority.*'high'"),
            ({"url": URL, "priority": 1.5}, "priority.*1.5"),
            ({"url": URL, "priority": 2**60}, f"priority.*{2**60}"),
        ],
    )
    async def test_what_no_worker_could_run_is_refused(self, state, request_, message):
        """Before anything is sent: it is not marked as seen either."""
        with pytest.raises(ValueError, match=message):
            await state.push_many([URL, request_])
        assert (await state.status()).generation == 0

    async def test_the_priority_given_wins(self, state):
        """Over that of the request, which is used without."""
        await state.push({"url": url(1), "priority": 3})
        await state.push({"url": url(2), "priority": 9}, 1)
        leased = await state.lease(2)
        assert [(one.url, one.priority) for one in leased] == [(url(1), 3), (url(2), 1)]

    async def test_the_first_claim_of_a_url_wins(self, connect):
        """A fingerprint alone may be claimed as well."""
        one, other = connect(), connect()
        assert await one.claim(URL)
        assert not await other.claim(URL)
        assert await other.claim_many([URL, url(1), url(1)]) == [False, True, False]
        assert await one.claim_fingerprint(b"f")
        assert not await other.claim_fingerprint(b"f")
        assert await one.size() == 0


class TestFinishedCrawl:
    async def test_a_push_opens_the_next_generation(self, crawl, state):
        """With the default id, whatever this program remembers of the last one."""
        assert await state.push(URL)
        crawl.finish()
        assert await state.push(URL)
        assert not await state.push(URL)
        assert (await state.status()).generation == 2

    async def test_a_push_to_a_given_id_is_refused(self, crawl, state):
        """The error says what to do."""
        crawl.finish(given=True)
        with pytest.raises(Refused, match="another crawl id, or reset it"):
            await state.push(URL)
        await state.reset()
        assert await state.push(URL)

    async def test_there_is_nothing_to_lease(self, crawl, state):
        """A program does not start a crawl over."""
        crawl.finish()
        assert await state.lease(5) == []
        assert await state.lease(5) == []
        assert (await state.status()).generation == 1


class TestTools:
    async def test_a_crawl_that_is_not_there_has_generation_zero(self, state):
        """Looking at it does not make it."""
        status = await state.status()
        assert (status.generation, status.seen, status.workers) == (0, 0, ())
        assert await state.size() == 0
        assert await state.fsck() == []
        assert (await state.reap()).requeued == 0
        await state.reset()
        assert (await state.status()).generation == 0

    async def test_a_reset_starts_over(self, crawl, state):
        """Everything is forgotten but the sequence of ids; it may be done again."""
        await state.push(URL)
        for generation in (2, 3):
            (id,) = crawl.place("frontier")
            await state.reset()
            assert (await state.status()).generation == generation
            assert (await state.size(), (await state.status()).seen) == (0, 0)
            assert await state.push(URL)
            assert [*crawl.place("frontier")] < [id]

    async def test_a_reset_is_refused_while_workers_live(self, connect):
        """Unless it is forced; their leases are void then."""
        worker, tool = connect(), connect()
        await worker.push_many([url(1), url(2)])
        (leased, _) = await worker.lease(2)
        with pytest.raises(Refused, match="1 live workers: stop"):
            await tool.reset()
        await tool.reset(force=True)
        assert await tool.push(url(3))
        assert await worker.ack(leased) == [False]
        assert [one.url for one in await worker.lease(5)] == [url(3)]

    async def test_a_worker_may_reset_its_own_crawl(self, state):
        """What it held is void, and it goes on."""
        await state.push_many([url(1), url(2)])
        (leased, _) = await state.lease(2)
        await state.reset(force=True)
        assert await state.ack(leased) == [False]
        await state.push(url(3))
        (leased,) = await state.lease(5)
        assert await state.ack(leased) == [True]

    async def test_fsck_tells_what_does_not_fit(self, crawl, state):
        """One line for each request and fault; it changes nothing."""
        await state.push_many([url(1), url(2)])
        one, two = sorted(crawl.place("frontier"))
        crawl.client.zadd(crawl.key("delayed"), {one: 1})
        crawl.client.hdel(crawl.key("requests"), two)
        crawl.client.hset(crawl.key("leases"), "9", "w:1")
        with crawl.unchanged():
            assert await state.fsck() == [
                f"request {one} is in frontier and in delayed",
                f"request {two}: no entry in requests",
                "request 9: a lease, but is not in flight",
            ]
        crawl.client.flushall()

    async def test_a_crawl_of_another_version_is_refused(self, crawl, state):
        """With both versions."""
        crawl.member(identity={"schema": "0"})
        await state.push(URL)
        with pytest.raises(Refused, match="schema is '0', not '1'"):
            await state.lease()

    @pytest.mark.parametrize("name", ["crawl", "frontier", "leases", "seen"])
    async def test_a_key_of_a_wrong_type_is_refused_by_name(self, crawl, state, name):
        """Before anything is changed: it may be somebody else's."""
        key = crawl.keys.seen(1) if name == "seen" else crawl.keys.named(name)
        crawl.client.set(key, "not ours")
        for call in (state.lease(), state.push(URL), state.claim(URL)):
            with crawl.unchanged(), pytest.raises(Refused, match="'string'"):
                await call
        with pytest.raises(Refused, match=f"cannot be used: {key} is 'string', not"):
            await state.push(URL)
        crawl.client.delete(key)


@pytest.mark.parametrize("kind", [CrawlState, AsyncCrawlState])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crawl": ""}, "crawl id is empty"),
        ({"crawl": "a{b}"}, "'a{b}' contains a brace"),
        ({"crawl": "a", "prefix": "{"}, "key prefix '{' contains a brace"),
        ({"crawl": "a", "seen": "set"}, "seen='set' is no kind of seen set"),
    ],
)
def test_values_that_cannot_be_used_are_refused(kind, options, message):
    """Without asking the server."""
    with pytest.raises(ValueError, match=message):
        kind.connect("redis://127.0.0.1:1/0", **options)


@pytest.mark.parametrize(
    ("request_", "arguments"),
    [
        (Request("http://a.example/?b=2&a=1#x"), ()),
        (Request("http://a.example/é?q=ü"), ()),
        (Request("http://a.example/", method="POST", body=b"\xff"), ("POST", b"\xff")),
        (JsonRequest("http://a.example/", data={"a": 1}), ("POST", b'{"a": 1}')),
    ],
)
def test_programs_and_spiders_recognise_the_same_requests(request_, arguments):
    """What a program claims or pushes, a spider with Scrapy's fingerprints filters."""
    assert url_fingerprint(request_.url, *arguments) == fingerprint(request_)


def test_a_finished_crawl_is_only_joined_by_spiders(crawl):
    """A program that leases finds it finished, and a spider may open the next run."""
    crawl.finish()
    with CrawlState(crawl.client, crawl.keys) as state:
        assert state.lease() == []
    assert crawl.join("w9").status is JoinStatus.CREATED
