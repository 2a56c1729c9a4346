"""What is pushed is stored as it is, recognised, and told to whoever looks."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from scrapy_redis_state.codec import (
    Codec,
    NotDecodable,
    NotEncodable,
    describe_payload,
    encode_message,
)
from scrapy_redis_state.codec import payload as layout
from scrapy_redis_state.store.canonical import url_fingerprint
from scrapy_redis_state.store.requests import (
    message_fingerprint,
    message_operation,
    store_operation,
)

URL = "https://shop.example/p/7?b=2&a=1"


def test_a_message_is_told_as_the_request_that_it_describes():
    """Headers as Scrapy writes them, a body as bytes, a URL that is safe."""
    described = describe_payload(
        encode_message(
            {
                "url": "https://shop.example/é",
                "method": "post",
                "body": "é",
                "headers": {"accept": "a", "x-two": ["b", 3]},
                "meta": None,
            }
        )
    )
    assert described == {
        "url": "https://shop.example/%C3%A9",
        "method": "POST",
        "body": "é".encode(),
        "headers": {b"Accept": [b"a"], b"X-Two": [b"b", b"3"]},
        "callback": None,
        "errback": None,
        "priority": 0,
        "class": "Request",
        "complete": True,
    }


@pytest.mark.parametrize(
    "message",
    [
        {"url": URL, "sku": 7, "since": date(2026, 1, 2)},
        {"sku": [7, {"a": None}], "priority": 3},
        {"url": 5, "headers": "none"},
        {},
    ],
)
def test_a_message_may_have_any_fields(message: dict[str, Any]):
    """They are shown; without a URL that is empty."""
    operation = message_operation(message)
    described = describe_payload(operation.payload)
    assert described["class"] == "message"
    assert described["url"] == str(message.get("url", ""))
    for name in message.keys() - {"url"}:
        assert described[name] == message[name]
    assert operation.priority == message.get("priority", 0)
    assert len(operation.fingerprint) == 20


def test_equal_pages_are_one_message():
    """By URL, method and body, whatever else it says; as a crawl has them."""
    expected = url_fingerprint(URL)
    same: list[dict[str, Any]] = [
        {"url": URL},
        {"url": "https://SHOP.example/p/7?a=1&b=2#x", "sku": 7, "method": "get"},
        {"url": URL, "priority": 7, "meta": {"a": 1}, "body": None},
    ]
    for message in same:
        assert message_fingerprint(message) == expected
    assert store_operation(URL).fingerprint == expected
    assert message_fingerprint({"url": URL, "body": "x"}) != expected
    assert message_fingerprint({"url": URL, "method": "POST"}) != expected
    assert message_fingerprint({"url": URL, "dont_filter": True}) == b""


def test_without_a_url_the_whole_message_counts():
    """But its priority; the order of its fields does not matter."""
    first = message_fingerprint({"sku": 7, "of": [{"a": 1, "b": 2}]})
    again = message_operation({"of": [{"b": 2, "a": 1}], "sku": 7}, priority=9)
    assert again.fingerprint == first
    for other in ({"sku": "7", "of": [{"a": 1, "b": 2}]}, {"sku": 7}, {"url": 7}):
        assert message_fingerprint(other) != first


def test_what_cannot_be_stored_is_refused_with_its_place():
    """As of a request."""
    with pytest.raises(NotEncodable, match=r"message\['a'\]\[0\] is of type object"):
        encode_message({"a": [object()]})
    with pytest.raises(NotEncodable, match="names of fields are texts"):
        message_operation({7: 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="The priority of a message is 'high'"):
        message_operation({"priority": "high"})


def test_a_request_with_other_fields_is_no_request():
    """The error says how to push it all the same."""
    with pytest.raises(ValueError, match=r"no field .sku.: .* message \(--messages\)"):
        store_operation({"url": URL, "sku": 7})


def test_a_message_beside_other_fields_is_damaged():
    """Nobody wrote that."""
    packed = layout.encode_fields(
        Codec(), {layout.URL: URL, layout.MESSAGE: {"url": URL}}
    )
    with pytest.raises(NotDecodable, match="a message has no other fields"):
        describe_payload(packed)
