"""What is queued: ``push``, ``peek``, ``prioritize``, ``forget``."""

from __future__ import annotations

import json

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.seen import SeenSet
from tests.commands.commands import Commands, refusal
from tests.servers import Server
from tests.store.bloom import bloom_module
from tests.store.clients import StartServer

pytestmark = pytest.mark.one_server


def url(number: int) -> str:
    return f"http://shop.example/{number}"


def test_urls_are_pushed_from_wherever_they_are(
    commands: Commands, state: CrawlState, tmp_path
) -> None:
    """Arguments, a file, the input; with one priority for all."""
    file = tmp_path / "urls.txt"
    file.write_bytes(
        b"\xef\xbb\xbf%s\r\n\r\n  %s\n" % (url(2).encode(), url(3).encode())
    )
    done = commands("push", url(1), url(2), "--file", file, "--priority", 4)
    assert (done.status, done.output) == (0, "3 pushed, 1 known already, 0 bad\n")
    done = commands("push", text=f"{url(4)}\n")
    assert done.output == "1 pushed, 0 known already, 0 bad\n"
    done = commands("push", "--file", "-", text=f"{url(4)}\n")
    assert done.output == "0 pushed, 1 known already, 0 bad\n"
    taken = [(one.url, one.priority) for one in state.peek()]
    assert taken == [(url(1), 4), (url(2), 4), (url(3), 4), (url(4), 0)]


def test_requests_are_pushed_as_json(commands: Commands, state: CrawlState) -> None:
    """With all that JSON can say of them."""
    request = {
        "url": url(1),
        "method": "post",
        "headers": {"Accept": "a", "X-Two": ["b", "c"]},
        "body": "é=1",
        "cookies": {"sid": "1"},
        "meta": {"depth": 2},
        "cb_kwargs": {"page": 3},
        "callback": "parse_item",
        "errback": None,
        "priority": 4,
        "dont_filter": True,
    }
    text = f"{json.dumps(request)}\n{json.dumps(url(2))}\n{json.dumps(request)}\n"
    done = commands("push", "--json-lines", text=text)
    assert (done.status, done.output) == (0, "3 pushed, 0 known already, 0 bad\n")
    one, *_ = state.lease(3)
    assert (one.url, one.priority) == (url(1), 4)
    assert one.fields["method"] == "POST"
    assert one.fields["body"] == "é=1".encode()
    assert one.fields["headers"] == {b"Accept": [b"a"], b"X-Two": [b"b", b"c"]}
    for name in ("cookies", "meta", "cb_kwargs", "callback"):
        assert one.fields[name] == request[name]


def test_messages_of_any_form_are_pushed_for_a_spider_that_makes_requests_of_them(
    commands: Commands, server: Server
) -> None:
    """With an option; in a project, the spider may be asked instead."""
    text = '{"sku": 7}\n{"sku": 7, "priority": 2}\n{"sku": 8, "url": null}\n"x"\n'
    crawl = f"{commands.crawl}:makes"
    place = ["--url", commands.url, "--crawl", crawl]
    done = commands.run("push", *place, "--json-lines", text=text)
    assert done.output == "0 pushed, 0 known already, 4 bad\n"
    assert "line 1: A request has no field 'sku'" in done.errors
    done = commands.run("push", *place, "--messages", text=text)
    assert done.output == "2 pushed, 1 known already, 1 bad\n"
    words = ["redis-state", "push", "--spider", "makes", "--json-lines"]
    done = commands.scrapy(*words, text='{"sku": 9}\n', env=commands.project_env())
    assert (done.output, done.errors) == ("1 pushed, 0 known already, 0 bad\n", "")
    with CrawlState.connect(server.url, crawl=crawl) as state:
        told = [one.fields["sku"] for one in state.peek()]
    assert sorted(told) == [7, 8, 9]


BAD_LINES = {
    "xx": "is not JSON: ",
    "5": "is neither a URL nor an object",
    '"shop.example/a"': "Not the URL of a request, which needs a scheme",
    '{"method": "GET"}': "Not the URL of a request",
    '{"url": "http://a/", "colour": 1}': "A request has no field 'colour'",
    '{"url": "http://a/", "meta": []}': "meta is not an object",
    '{"url": "http://a/", "cookies": 1}': "cookies is not an object or a list",
    '{"url": "http://a/", "callback": {}}': "callback is not a text",
    '{"url": "http://a/", "dont_filter": 1}': "dont_filter is not true or false",
    '{"url": "http://a/", "priority": "high"}': "The priority of http://a/ is 'high'",
    '{"url": "http://a/", "encoding": "klingon"}': "unknown encoding: klingon",
    "[" * 100_000: "is nested too deeply",
    '{"url": "http://a/", "meta": {"a": ' + "[" * 400 + "]" * 400 + "}}": "meta",
}


def test_a_bad_line_is_told_by_its_number(
    commands: Commands, state: CrawlState
) -> None:
    """And the others go in, also those after it."""
    lines = [*BAD_LINES, json.dumps(url(1))]
    done = commands("push", "--json-lines", text="\n".join(lines))
    assert (done.status, done.output) == (
        1, f"1 pushed, 0 known already, {len(BAD_LINES)} bad\n",
    )  # fmt: skip
    told = done.errors.splitlines()
    for number, (line, text) in enumerate(
        zip(told, BAD_LINES.values(), strict=True), 1
    ):
        assert line.startswith(f"redis-state: line {number}: "), line
        assert text in line
    assert [one.url for one in state.peek()] == [url(1)]


def test_what_comes_next_is_shown(commands: Commands, state: CrawlState) -> None:
    """Best first; in a table, or as JSON."""
    assert refusal(commands("peek")).startswith("There is no crawl")
    state.push_many([url(1), {"url": url(2), "priority": 7}, url(3)])
    assert commands("peek", 2).lines == [
        "priority  deliveries  url",
        f"7         0           {url(2)}",
        f"0         0           {url(1)}",
    ]
    (first, *_) = commands("peek", "--json").json
    assert first["url"] == url(2)
    assert (first["priority"], first["deliveries"]) == (7, 0)


def test_what_is_queued_is_put_into_another_order(
    commands: Commands, state: CrawlState
) -> None:
    """For a flash sale; and back."""
    words = ["prioritize", "--match", "/[23]$"]
    assert refusal(commands(*words, "--by", 1)).startswith("There is no crawl")
    state.push_many(url(number) for number in range(4))
    assert commands(*words, "--by", 1000).output == "2 requests changed by +1000\n"
    assert [one.url for one in state.peek(2)] == [url(2), url(3)]
    assert commands(*words, "--by", -2000).output == "2 requests changed by -2000\n"
    assert [one.priority for one in state.peek(4)] == [0, 0, -1000, -1000]


def test_pages_count_as_new_again(commands: Commands, state: CrawlState) -> None:
    """Those that were seen; for others there is an error."""
    assert refusal(commands("forget", url(1))).startswith("There is no crawl")
    state.claim_many([url(1), url(2)])
    done = commands("forget", url(1), url(9))
    assert (done.status, done.output) == (1, "1 page forgotten\n")
    assert done.errors == f"redis-state: not seen yet: {url(9)}\n"
    assert state.claim_many([url(1), url(2)]) == [True, False]


def test_what_is_no_url_cannot_be_forgotten(
    commands: Commands, state: CrawlState
) -> None:
    """Nothing is, then; it may be a slip in one that was seen."""
    state.claim_many([url(1), "data:,x"])
    text = refusal(commands("forget", url(1), "shop.example/1"))
    assert text == ("Not the URL of a page, which needs a scheme: 'shop.example/1'.")
    assert not state.claim(url(1))
    assert commands("forget", "data:,x").output == "1 page forgotten\n"


def test_a_bloom_filter_cannot_forget_and_tells_what_it_cost(
    commands: Commands, fresh_server: StartServer, crawl_name: str
) -> None:
    """With the remedy; ``status`` has the number of pages lost."""
    server = fresh_server("redis", extra_args=["--loadmodule", str(bloom_module())])
    commands.url = server.url
    bloom = SeenSet("bloom", capacity=2000, error_rate=0.05)
    with CrawlState.connect(
        server.url,
        crawl=crawl_name,
        seen=bloom.kind,
        seen_capacity=bloom.capacity,
        seen_error_rate=bloom.error_rate,
    ) as state:
        new = state.claim_many(url(number) for number in range(6000))
    lost = new.count(False)
    status = commands("status", "--json").json
    assert status["seen_set"] == bloom.spec
    assert status["seen"] == 6000 - lost
    assert lost / 2 < status["expected_lost"] < lost * 2
    text = refusal(commands("forget", url(1)))
    assert "is a Bloom filter and cannot forget a page: push it" in text
