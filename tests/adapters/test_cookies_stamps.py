"""A stored request says which state of its session its maker knew."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from scrapy import Request, Spider

from scrapy_redis_state.codec import describe_payload
from scrapy_redis_state.requests.serialize import RequestSerializer
from scrapy_redis_state.sessions.identity import GivenValues
from scrapy_redis_state.sessions.stamps import Known, SessionStamps
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions import Stamp

STAMP = Stamp("1790000000000000", 7)
URL = "http://www.shop.example/a"


class Maker:
    """A process that knows some sessions, by site and name."""

    def __init__(self, known: dict[SessionKey, Stamp] | None = None) -> None:
        self.given = GivenValues()
        found = known or {}
        self.stamps = SessionStamps(found.get, self.given, "")
        self.serializer = RequestSerializer(Spider("shop"), stamps=self.stamps)


class Forger(SessionStamps):
    """Says something else."""

    def __init__(self, stamp: list[Any]) -> None:
        super().__init__(lambda _: None, GivenValues(), "")
        self.said = stamp

    def stamp(self, request: Request) -> list[Any]:  # noqa: ARG002 - a forged answer
        return self.said


def test_it_comes_back_with_the_request():
    """Beside it, and not in it."""
    maker, taker = Maker({SessionKey("shop.example"): STAMP}), Maker()
    request = taker.serializer.decode(maker.serializer.encode(Request(URL)))
    assert taker.stamps.of(request) == Known(STAMP)
    assert request.meta == {}
    assert taker.stamps.of(Request(URL)) is None


def test_as_long_as_there_is_no_session_none_is_looked_for():
    """Most crawls have none, and each link would be asked which one it has."""
    asked: list[SessionKey] = []
    stamps = SessionStamps(asked.append, GivenValues(), "", may_know=lambda: False)
    assert stamps.stamp(Request(URL)) is None
    assert asked == []


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://other.example/"),
        Request(URL, meta={"cookiejar": "ann"}),
        Request(URL, meta={"cookiejar": object}),
        Request(URL, meta={"dont_merge_cookies": True}),
        Request("file:///etc/hosts"),
        Request("data:,x"),
    ],
)
def test_nothing_is_said_of_sessions_that_are_not_known(request_):
    """Such a request is stored as it always was."""
    maker = Maker(
        {SessionKey("shop.example"): STAMP, SessionKey("shop.example", "bob"): STAMP}
    )
    assert maker.stamps.stamp(request_) is None


def test_each_session_has_its_own():
    """By site and by jar."""
    maker = Maker({SessionKey("shop.example", "~(7)"): STAMP})
    request = Request(URL, meta={"cookiejar": (7,)})
    assert maker.stamps.stamp(request) == [*STAMP]


def test_old_payloads_are_read_and_new_ones_described():
    """Before, there was no such field; and people need not see it."""
    old = RequestSerializer(Spider("shop")).encode(Request(URL))
    maker = Maker({SessionKey("shop.example"): STAMP})
    request = maker.serializer.decode(old)
    assert maker.stamps.of(request) is None
    new = maker.serializer.encode(Request(URL))
    assert describe_payload(new) == describe_payload(old)
    assert RequestSerializer(Spider("shop")).decode(new).url == URL


def test_it_names_what_comes_from_the_session():
    """What the request has of its identity, that is."""
    maker = Maker({SessionKey("shop.example"): STAMP})
    maker.given.add(SessionKey("shop.example"), "user-agent", (b"browser/1",))
    maker.given.add(SessionKey("shop.example"), "x-app", (b"7",))
    request = Request(URL, headers={"User-Agent": "browser/1", "X-App": "8"})
    assert maker.stamps.stamp(request) == [*STAMP, "user-agent"]


@pytest.mark.parametrize(
    "stamp", [["1"], [1, 7], ["1", "7"], ["1", True], ["1", None], [[], {}, "a"]]
)
def test_a_stamp_that_nobody_can_use_is_left_out(stamp):
    """Anyone may have written it; the request is good all the same."""
    taker = Maker()
    forged = RequestSerializer(Spider("shop"), stamps=Forger(stamp))
    request = taker.serializer.decode(forged.encode(Request(URL)))
    assert request.url == URL
    assert taker.stamps.of(request) is None


def test_requests_are_not_kept_alive():
    """What is known of them goes with them."""
    maker = Maker({SessionKey("shop.example"): STAMP})
    data = maker.serializer.encode(Request(URL))
    requests = [maker.serializer.decode(data) for _ in range(10)]
    assert len(maker.stamps._of_request) == 10
    requests.clear()
    gc.collect()
    assert len(maker.stamps._of_request) == 0
