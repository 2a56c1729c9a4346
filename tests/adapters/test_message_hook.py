"""How a spider makes requests of what was pushed: ``redis_state_request``."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider

from scrapy_redis_state.codec import NotDecodable, UnknownCode, encode_message
from scrapy_redis_state.codec.label import text_label
from scrapy_redis_state.requests.message_hook import (
    HookFailed,
    NothingWanted,
    message_hook,
)
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.store.requests import store_operation

URL = "https://shop.example/p/7"


class PlainSpider(Spider):
    name = "plain"

    def parse_product(self, response): ...


class HookedSpider(PlainSpider):
    name = "hooked"

    def redis_state_request(self, message: dict[str, Any]) -> Any:
        self.got = message
        return self.answer(message)

    def answer(self, message: dict[str, Any]) -> Any:
        if "answer" in message:
            return message["answer"]
        if "url" in message:
            return Request(message["url"])
        url = f"https://shop.example/p/{message['sku']}"
        return Request(url, self.parse_product, cb_kwargs=message, priority=99)


def read(spider: Spider, message: dict[str, Any]) -> Request:
    serializer = RequestSerializer(spider, hook=message_hook(spider))
    return serializer.decode(encode_message(message))


def test_without_a_hook_a_message_is_a_request():
    """All its fields count."""
    spider = PlainSpider()
    message = {
        "url": "https://shop.example/é",
        "method": "post",
        "headers": {"x-a": "1"},
        "body": "é",
        "cookies": {"a": "b"},
        "meta": {"depth": 2},
        "cb_kwargs": {"page": 1},
        "callback": "parse_product",
        "priority": 4,
        "dont_filter": True,
        "errback": None,
    }
    request = read(spider, message)
    assert request.url == "https://shop.example/%C3%A9"
    assert request.method == "POST"
    assert request.headers.to_unicode_dict() == {"X-A": "1"}
    assert request.body == "é".encode()
    assert request.cookies == {"a": "b"}
    assert request.meta == {"depth": 2}
    assert request.cb_kwargs == {"page": 1}
    assert request.callback == spider.parse_product
    assert request.priority == 4
    assert request.dont_filter


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        ({"url": URL, "sku": 7}, UnknownCode, f"{URL}' is a message with a field that"),
        ({"url": URL, "callback": "parse_it"}, UnknownCode, "parse_it"),
        ({"url": URL, "meta": [1]}, NotDecodable, "field 'meta' is of type list"),
        ({"url": "shop"}, NotDecodable, "a message that is no request: Not the URL"),
        ({"url": URL, "encoding": "klingon"}, NotDecodable, "unknown encoding"),
    ],
)
def test_what_is_no_request_is_left_to_workers_with_other_code(message, error, text):
    """If a spider with a hook could make one of it; else it is given up."""
    with pytest.raises(error, match=text):
        read(PlainSpider(), message)


def test_the_hook_gets_what_was_pushed_and_makes_the_request():
    """With fields of its own; the message's priority stays."""
    spider = HookedSpider()
    message = {"sku": 7, "tags": ["a", {"b": None}], "priority": 5}
    request = read(spider, message)
    assert spider.got == message
    assert request.url == "https://shop.example/p/7"
    assert request.callback == spider.parse_product
    assert request.cb_kwargs == message
    assert request.priority == 5


def test_the_hook_gets_every_request_that_was_pushed():
    """As it was given to the push."""
    spider = HookedSpider()
    serializer = RequestSerializer(spider, hook=message_hook(spider))
    serializer.decode(store_operation("https://shop.example/é", priority=3).payload)
    assert spider.got == {"url": "https://shop.example/é", "priority": 3}
    # What the crawl itself stored is none of its business.
    own = serializer.decode(serializer.encode(Request(URL)))
    assert own.url == URL
    assert spider.got["url"] == "https://shop.example/é"


def test_the_hook_may_want_nothing_and_may_fail():
    """What it raised, or why its answer is none, is the cause."""
    spider = HookedSpider()
    with pytest.raises(NothingWanted):
        read(spider, {"answer": None})
    with pytest.raises(HookFailed, match="returned a str, not a Request or None"):
        read(spider, {"answer": URL})
    with pytest.raises(HookFailed, match="raised KeyError") as caught:
        read(spider, {"sk": 7})
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ({"url": "https://me:pw@shop.example/p"}, "'https://shop.example/p'"),
        ({"url": URL, "headers": {"Cookie": "s=1"}}, f"'{URL}'"),
        ({"sk": 7, "cookies": {"s": "1"}}, "(fields 'sk', 'cookies')"),
        ({"url": {"at": "pw"}}, "(fields 'url')"),
        ({}, "(no fields)"),
    ],
)
def test_a_message_is_named_without_what_may_be_secret(message, label):
    """By its URL, or by the names of its fields."""

    class FailingSpider(PlainSpider):
        def redis_state_request(self, message):
            raise LookupError(f"not in {len(message)} fields")

    with pytest.raises(HookFailed) as caught:
        read(FailingSpider(), message)
    assert str(caught.value).startswith("redis_state_request() raised LookupError(")
    assert str(caught.value).endswith(f" fields') for the message {label}")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("https://me:pw@shop.example/p", "'https://shop.example/p'"),
        ('"https://shop.example/p"', "'https://shop.example/p'"),
        (
            '{"url": "https://shop.example/p", "cookies": {}}',
            "'https://shop.example/p'",
        ),
        ('{"cookies": {"s": "1"}}', "(fields 'cookies')"),
        ('{"cookies": {"s": "1"', "(21 characters)"),
        ("https://shop.example/p s=1", "(26 characters)"),
    ],
)
def test_a_text_is_named_without_what_may_be_secret(text, label):
    """By its URL, the names of its fields, or its length."""
    assert text_label(text) == label


def test_a_hook_is_a_plain_method():
    """Whatever is to be awaited, or yields, cannot make one request at once."""

    class AsyncSpider(PlainSpider):
        async def redis_state_request(self, message): ...

    class YieldingSpider(PlainSpider):
        def redis_state_request(self, message):
            yield message

    class AttributeSpider(PlainSpider):
        redis_state_request = "parse"

    for spider in (AsyncSpider, YieldingSpider, AttributeSpider):
        with pytest.raises(ValueError, match="'plain' is no plain method: write"):
            message_hook(spider)
    assert message_hook(PlainSpider) is None
