"""Queues and fingerprints of scrapy-redis, copied into an empty crawl of ours."""

from __future__ import annotations

import datetime
import json
import pickle
import subprocess
from typing import Any

import pytest
from scrapy import FormRequest, Request
from scrapy.http import HtmlResponse, JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider

from scrapy_redis_state.migration import ScrapyRedisFingerprinter
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store.canonical import DEFAULT_RULES, url_fingerprint
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus, Seeding
from scrapy_redis_state.store.migration.entries import Entries
from scrapy_redis_state.store.migration.imported import ImportedCrawl
from scrapy_redis_state.store.migration.old_crawl import OldCrawl, OldEntry
from scrapy_redis_state.store.migration.pickles import NotPlain, load_plain

IDENTITY = {"schema": "1", "seen": "exact", "order": "fifo"}


class Pages(CrawlSpider):
    name = "pages"

    def parse_page(self, response):
        """A callback."""


class Own(Request):
    """A class of the project."""


SPIDER = Pages()
AT = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
REQUESTS = [
    Request("http://a.example/"),
    Request(
        "http://a.example/b?q=%7E",
        SPIDER.parse_page,
        method="PUT",
        headers={"A": ["1", "2"]},
        body=b"\x00\xff",
        cookies={"c": "d"},
        meta={"depth": 2, "at": AT, "t": (1, {"s"})},
        cb_kwargs={"n": None},
        priority=-3,
        dont_filter=True,
        flags=["f"],
        errback=SPIDER.parse_page,
    ),
    FormRequest("http://a.example/form", formdata={"x": "y"}),
    JsonRequest("http://a.example/json", data={"x": 1}, callback=SPIDER._callback),
    Own("http://a.example/own"),
]


def entry(request: Request) -> bytes:
    """What a queue of scrapy-redis holds of a request."""
    return pickle.dumps(request.to_dict(spider=SPIDER), protocol=-1)


def entries(*, unpickle=True, has_method=None, rules=None) -> Entries:
    return Entries(unpickle=unpickle, has_method=has_method, rules=rules)


def refusal(data: bytes, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        entries(**options).read(data, None)
    return str(caught.value)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.url)
def test_a_request_comes_back_as_it_was(request_):
    """Of the same class, with all that it had."""
    stored = entries().read(entry(request_), None)
    assert (stored.priority, stored.fingerprint) == (request_.priority, b"")
    read = RequestSerializer(SPIDER).decode(stored.payload)
    assert type(read) is type(request_)
    assert read.to_dict(spider=SPIDER) == request_.to_dict(spider=SPIDER)


def test_requests_of_a_json_serializer_are_read_without_a_flag():
    """As far as JSON can say what a request is."""
    described = Request("http://a.example/", SPIDER.parse_page, headers={"A": "b"})
    fields = described.to_dict(spider=SPIDER)
    fields |= {"body": "", "headers": {"A": ["b"]}}
    stored = entries(unpickle=False).read(json.dumps(fields).encode(), 7)
    assert stored.priority == 7
    read = RequestSerializer(SPIDER).decode(stored.payload)
    assert (read.callback, read.headers[b"A"]) == (SPIDER.parse_page, b"b")


def test_what_is_filtered_is_marked_as_seen_where_no_old_filter_counts():
    """So that it is not stored once more by a page that links to it."""
    read = entries(rules=DEFAULT_RULES).read
    one, two = (read(entry(request), None) for request in REQUESTS[:2])
    assert one.fingerprint == url_fingerprint("http://a.example/")
    assert two.fingerprint == b""


def test_texts_of_links_become_texts():
    """Link extractors put them into meta, as lxml made them."""
    page = HtmlResponse("http://a.example/", body=b'<a href="/x">a <b>link</b></a>')
    (link,) = LinkExtractor().extract_links(page)
    (text,) = load_plain(pickle.dumps([link.text]))
    assert type(link.text) is not str
    assert (type(text), text) == (str, "a link")


class Gadget:
    """What an attacker would put into a pickle."""

    def __reduce__(self):
        return subprocess.check_call, (["false"],)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Gadget(), "check_call"),
        (eval, "eval"),
        (ValueError("x"), "ValueError"),
        ({"meta": {"o": Own}}, "Own"),
    ],
    ids=["call", "eval", "error", "class"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_of_more_than_plain_data_is_refused(value, named, protocol):
    """By the name of what it would have imported."""
    with pytest.raises(NotPlain, match=f"names .*{named}, which is no plain data"):
        load_plain(pickle.dumps(value, protocol=protocol))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\x05", b"\x80\x05\x95garbage", b"\x80\x05]\x94."]
)
def test_damaged_pickles_are_refused(data):
    """And so is one that is whole and describes no request."""
    with pytest.raises(ValueError):
        entries().read(data, None)


def test_what_cannot_be_read_says_why():
    """In one line each."""
    cycle: list[Any] = []
    cycle.append(cycle)
    fields = {"url": "http://a.example/", "meta": {"x": cycle}}
    assert refusal(pickle.dumps(fields))
    assert "is a pickle, which --unpickle reads" in refusal(
        entry(REQUESTS[0]), unpickle=False
    )
    assert "neither a pickle nor JSON" in refusal(b"http://a.example/")
    assert "is no description of a request" in refusal(b"[]")
    assert "is no description of a request" in refusal(b'{"url": 3}')
    assert "needs a scheme" in refusal(b'{"url": "a"}')
    unknown = b'{"url": "http://a/", "callback": "nothing"}'
    assert "names a callback that the spider lacks: 'nothing'" in refusal(
        unknown, has_method=lambda name: name == "parse"
    )
    assert "no request has, 'zzz'" in refusal(b'{"url": "http://a/", "zzz": 1}')
    assert "a class that is no name" in refusal(b'{"url": "http://a/", "_class": 1}')


@pytest.fixture
def old(server, crawl_name):
    """The server of an old crawl, and the keys that it has there."""
    client: Any = server.client()
    return client, f"{crawl_name}:requests", f"{crawl_name}:dupefilter"


def test_a_sorted_set_is_read_in_its_order(old):
    """Lowest score first, however many there are."""
    client, queue, dupefilter = old
    client.zadd(queue, {f"{number:04}": number - 600 for number in range(1200)})
    crawl = OldCrawl(client, queue, dupefilter)
    assert crawl.queue_size() == 1200
    assert [*crawl.entries()] == [
        OldEntry(number + 1, b"%04d" % number, 600 - number) for number in range(1200)
    ]


def test_a_list_is_read_from_its_oldest_entry(old):
    """Which the queue takes next, and the stack last."""
    client, queue, dupefilter = old
    for number in range(1100):
        client.lpush(queue, number)
    crawl = OldCrawl(client, queue, dupefilter)
    found = [(one.number, one.data) for one in crawl.entries()]
    assert found == [(number + 1, b"%d" % number) for number in range(1100)]


def test_keys_of_other_programs_are_refused(old):
    """By their type, or by what is in them."""
    client, queue, dupefilter = old
    client.hset(queue, "a", "b")
    with pytest.raises(Refused, match="is a hash, not a zset or list"):
        OldCrawl(client, queue, dupefilter)
    client.delete(queue)
    client.sadd(dupefilter, "http://a.example/")
    crawl = OldCrawl(client, queue, dupefilter)
    assert crawl.has_dupefilter
    with pytest.raises(Refused, match="no fingerprint of scrapy-redis"):
        list(crawl.fingerprints())


def imported(server, crawl_name):
    return ImportedCrawl(sync_client(server.url), CrawlKeys(crawl_name))


def test_an_imported_crawl_is_paused_until_it_is_whole(server, crawl_name):
    """It has what was stored, and its start() counts as done."""
    with imported(server, crawl_name) as crawl:
        crawl.begin(IDENTITY)
        assert crawl.mark_seen([b"a", b"b", b"a"]) == 2
        assert crawl.store([entries().read(entry(one), None) for one in REQUESTS]) == 5
        status = crawl.status()
        assert status.summary.status is CrawlStatus.PAUSED
        assert status.summary.seeding is Seeding.DONE
        assert status.workers == ()
        crawl.open()
        summary = crawl.status().summary
        assert (summary.pending, summary.seen) == (5, 2)
        assert summary.status is CrawlStatus.RUNNING
        assert crawl.fsck() == []


def test_only_an_empty_crawl_is_filled(server, crawl_name):
    """Not one that has anything, nor one that another import is filling."""
    with imported(server, crawl_name) as crawl:
        crawl.begin(IDENTITY, start=True)
        with (
            imported(server, crawl_name) as another,
            pytest.raises(Refused, match=r"is not empty \(paused\)"),
        ):
            another.begin(IDENTITY)
        crawl.open()
        assert crawl.status().summary.seeding is Seeding.OPEN
    with imported(server, crawl_name) as crawl:
        crawl.begin(IDENTITY)
        crawl.mark_seen([b"a"])
        crawl.open()
    with imported(server, crawl_name) as crawl:
        with pytest.raises(Refused, match=r"is not empty \(1 seen\): import into"):
            crawl.begin(IDENTITY)
        crawl.delete()
        crawl.begin(IDENTITY)
        crawl.open()


@pytest.mark.one_server
def test_the_command_copies_an_old_crawl(commands, server, crawl_name):
    """What it cannot read it names and leaves; the old keys stay as they were."""
    client: Any = server.client()
    queue, dupefilter = f"{crawl_name}:requests", f"{crawl_name}:dupefilter"
    client.zadd(queue, {entry(one): -one.priority for one in REQUESTS[:4]})
    client.zadd(queue, {pickle.dumps(Gadget()): 99, b"garbage": 100})
    seen = [ScrapyRedisFingerprinter().fingerprint(one).hex() for one in REQUESTS]
    client.sadd(dupefilter, *seen)
    before = client.dump(queue), client.smembers(dupefilter)
    verb = ["import", "--from-scrapy-redis", "--queue-key", queue]
    verb += ["--dupefilter-key", dupefilter]
    done = commands(*verb)
    assert done.status == 1
    assert "set REQUEST_FINGERPRINTER_CLASS =" in done.errors
    path = "scrapy_redis_state.migration.ScrapyRedisFingerprinter"
    verb += ["-s", f"REQUEST_FINGERPRINTER_CLASS={path}"]
    done = commands(*verb)
    assert done.status == 1
    assert "are pickles, which can run any code" in done.errors
    assert not client.exists(f"crawl:{{{crawl_name}}}")
    done = commands(*verb, "--unpickle")
    assert done.status == 1
    assert "warning: pickles can run any code" in done.errors
    assert "entry 5: names subprocess.check_call" in done.errors
    assert "entry 6: is neither a pickle nor JSON" in done.errors
    assert done.lines == [
        f"4 requests and 5 fingerprints imported, 2 unreadable (still in {queue})"
    ]
    assert (client.dump(queue), client.smembers(dupefilter)) == before
    with imported(server, crawl_name) as crawl:
        assert crawl.status().summary.seeding is Seeding.DONE
        urls = [one.url for one in crawl.peek()]
        assert crawl.fsck() == []
    assert urls[-1] == "http://a.example/b?q=%7E"
    agreed = client.hget(f"crawl:{{{crawl_name}}}", "agreed:fingerprinter")
    assert agreed.decode().endswith("ScrapyRedisFingerprinter")
    assert "is not empty" in commands(*verb, "--unpickle").errors
