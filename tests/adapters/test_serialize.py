"""A stored request comes back equal, or is refused; and a forged one does nothing."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import pickle
import sys
import threading
import types
import warnings
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Field, FormRequest, Item, Request, Selector, Spider
from scrapy.http import HtmlResponse, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider

from scrapy_redis_state.codec import Codec, payload
from scrapy_redis_state.requests.serialize import (
    NotDecodable,
    NotEncodable,
    RequestSerializer,
    UnknownCode,
    describe_payload,
)

URL = "http://shop.example/list?page=2"


def request_with(**fields: Any) -> Request:
    """A request whose fields no type checker knows."""
    return Request(URL, **fields)


def same_method(function):
    """A decorator that is careful."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def careless(function):
    """A decorator that leaves its own name."""

    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Bound:
    """A decorator that is a class, as some libraries have them."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self.function, instance)


class Helper:
    def parse_part(self, response): ...


class Mixin:
    def parse_mixed(self, response): ...


def parse_elsewhere(response): ...


HELPER = Helper()


class ShopSpider(Mixin, Spider):
    name = "shop"
    parse_aliased = HELPER.parse_part
    link_extractor = LinkExtractor()
    touched: ClassVar[list[str]] = []

    @property
    def page(self):
        self.touched.append("page")
        return self.parse

    @functools.cached_property
    def cached(self):
        self.touched.append("cached")
        return self.parse

    def parse(self, response): ...

    def parse_product(self, response): ...

    async def parse_async(self, response): ...

    async def parse_generator(self, response):
        yield response

    def __private(self, response): ...

    @property
    def private(self):
        return self.__private

    @same_method
    def parse_wrapped(self, response): ...

    @careless
    def parse_careless(self, response): ...

    @Bound
    def parse_bound(self, response): ...

    @staticmethod
    def parse_static(response): ...

    @classmethod
    def parse_class(cls, response): ...

    parse_again = parse_product

    def closed(self, reason):
        self.touched.append(reason)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        cls.touched.append("from_crawler")
        return super().from_crawler(crawler, *args, **kwargs)


@pytest.fixture
def spider():
    ShopSpider.touched.clear()
    return ShopSpider()


@pytest.fixture
def serializer(spider):
    return RequestSerializer(spider)


FIELDS = (
    "url",
    "method",
    "headers",
    "body",
    "cookies",
    "meta",
    "encoding",
    "priority",
    "dont_filter",
    "callback",
    "errback",
    "flags",
    "cb_kwargs",
)


def assert_equal(got, request):
    assert type(got) is type(request)
    for name in dict.fromkeys((*FIELDS, *request.attributes)):
        assert getattr(got, name) == getattr(request, name), name
        assert type(getattr(got, name)) is type(getattr(request, name)), name
    assert list(got.headers.items()) == list(request.headers.items())
    assert list(got.meta) == list(request.meta), "order"


def trip(serializer, request):
    got = serializer.decode(serializer.encode(request))
    assert_equal(got, request)
    return got


# Fields


def test_every_field_comes_back(serializer, spider):
    """Bytes, repeated headers, an encoding that is not UTF-8, an errback."""
    request = request_with(
        callback=spider.parse_product,
        errback=spider.parse_async,
        method="PUT",
        headers=[("X-A", "1"), ("x-a", "2"), ("Cookie", b"\xff"), ("Accept", None)],
        body=b"\x00\xff",
        cookies=[
            {"name": "sid", "value": "1", "domain": "shop.example", "secure": True}
        ],
        meta={
            "proxy": "http://proxy.example:8080",
            "download_slot": "slot",
            "download_timeout": 3.5,
            "dont_retry": True,
            "handle_httpstatus_list": [404, 503],
            "bindaddress": ("127.0.0.1", 0),
            "cookiejar": 0,
            b"bytes": {1: {2, 3}},
            ("a", 1): datetime(2026, 1, 2, tzinfo=timezone.utc),
        },
        encoding="latin-1",
        priority=-(2**40),
        dont_filter=True,
        flags=["cached", "späth"],
        cb_kwargs={"price": Decimal("9.90"), "seen": frozenset({"x"})},
    )
    assert trip(serializer, request).headers.getlist("x-a") == [b"1", b"2"]


TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
PLAIN = st.none() | st.booleans() | st.integers() | TEXT | st.binary(max_size=6)
METAS = st.dictionaries(TEXT, PLAIN | st.lists(PLAIN, max_size=3), max_size=3)
HEADERS = st.dictionaries(
    st.from_regex("[A-Za-z][A-Za-z0-9-]{0,8}", fullmatch=True),
    st.binary(max_size=8) | st.lists(st.binary(max_size=8), max_size=3),
    max_size=3,
)


@given(
    path=st.text(max_size=12),
    verbatim=st.booleans(),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "method": st.sampled_from(["GET", "post", "X-Odd"]),
            "headers": HEADERS,
            "body": st.binary(max_size=20),
            "cookies": METAS | st.lists(METAS, max_size=2),
            "cb_kwargs": METAS,
            "encoding": st.sampled_from(["utf-8", "latin-1", "cp1251", "utf-16"]),
            "priority": st.integers(),
            "dont_filter": st.booleans(),
            "flags": st.lists(TEXT, max_size=2),
            "callback": st.sampled_from(["parse_product", "parse_async"]),
        },
    ),
    meta=METAS,
)
def test_any_request_comes_back(path, verbatim, fields, meta):
    """Whatever fields it has; its URL is the same bytes."""
    spider = ShopSpider()
    if "callback" in fields:
        fields = {**fields, "callback": getattr(spider, fields["callback"])}
    if verbatim:
        meta = {**meta, "verbatim_url": True}
    # Some text cannot be in a URL or body of some encoding.
    request = None
    with contextlib.suppress(ValueError):
        request = Request(f"http://shop.example/{path}", meta=meta, **fields)
    if request is not None:
        trip(RequestSerializer(spider), request)


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/a b?q=%zz|{}",
        "HTTP://Shop.Example:80/%7Ea/../b;x=1#frag",
        "http://shop.example/%e9",
        "http://bücher.example/ü",
        "data:,hello world",
    ],
)
def test_a_url_that_was_set_as_it_is_stays_so(serializer, url):
    """Verbatim URLs, on any version of Scrapy; nothing is escaped once more."""
    request = Request(URL, meta={"verbatim_url": True})
    request._url = url
    assert serializer.decode(serializer.encode(request)).url == url


def test_fields_changed_after_creation_come_back(serializer):
    """Components change requests in place, past what the constructor would allow."""
    request: Any = JsonRequest(URL, data={"a": 1}, headers={"X": "1"})
    del request.headers["Content-Type"]
    request.method = "patch"
    request.priority = True
    request.dont_filter = 1
    request.flags = ("a",)
    request.cookies = []
    got = serializer.decode(serializer.encode(request))
    for name in FIELDS:
        assert getattr(got, name) == getattr(request, name), name


class Priority(enum.IntEnum):
    HIGH = 7


def test_a_named_priority_comes_back_as_its_number(serializer):
    """The only field where an equal value of a plain type will do."""
    got = serializer.decode(serializer.encode(Request(URL, priority=Priority.HIGH)))
    assert got.priority == Priority.HIGH


@pytest.mark.parametrize(
    ("field", "value"),
    [("method", None), ("priority", 1.5), ("flags", {Priority.HIGH})],
)
def test_a_field_of_a_wrong_type_is_refused(serializer, field, value):
    """It names the field."""
    request = Request(URL)
    setattr(request, field, value)
    with pytest.raises(NotEncodable, match=f"{field}.* is of type"):
        serializer.encode(request)


def test_encoding_leaves_the_request_alone(serializer, spider):
    """It may run in this worker yet."""
    request = Request(URL, meta={"a": [1], "playwright_page": None, "retry_times": 1})
    serializer.encode(request)
    assert request.meta == {"a": [1], "playwright_page": None, "retry_times": 1}
    assert request.callback is None


def test_a_decoded_request_shares_nothing_with_others(serializer):
    """Two decodings of the same bytes can be changed apart from each other."""
    data = serializer.encode(JsonRequest(URL, meta={"a": [1]}))
    first, second = serializer.decode(data), serializer.decode(data)
    first.meta["a"].append(2)
    first.cb_kwargs["x"] = first.cookies["y"] = 1
    first.flags.append("z")
    first.headers["H"] = "1"
    assert_equal(second, JsonRequest(URL, meta={"a": [1]}))


def test_a_typical_request_is_small_and_fast_enough(serializer, spider):
    """The names of fields are not stored, nor what has its default."""
    request = Request(
        URL,
        callback=spider.parse_product,
        headers={"Referer": URL},
        meta={"depth": 3, "category": "shoes", "page": 2, "listing": 12345},
    )
    assert len(serializer.encode(request)) < 2 * len(URL) + 85
    assert len(serializer.encode(Request(URL))) == len(URL) + 5


# Classes


class TaggedRequest(Request):
    attributes = (*Request.attributes, "tag", "score")

    def __init__(self, *args, tag=None, score=0, **kwargs):
        self._tag = tag
        self.score = score
        super().__init__(*args, **kwargs)

    @property
    def tag(self):
        return self._tag


class SlottedRequest(TaggedRequest):
    __slots__ = ("__hidden", "note")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__hidden = "hidden"

    @property
    def hidden(self):
        return self.__hidden


class UrgentRequest(Request):
    """Changes its fields each time it is made."""

    def __init__(self, *args, **kwargs):
        kwargs["priority"] = kwargs.get("priority", 0) + 10
        super().__init__(*args, **kwargs)
        self.headers.appendlist("X-Made", "1")
        self.meta["made"] = self.meta.get("made", 0) + 1
        self._url += "&made=1"


class LooseRequest(Request):
    """Holds what its ``attributes`` do not name."""

    wait = None

    def __init__(self, url, callback=None, wait=None, **kwargs):
        self.wait = wait
        super().__init__(url, callback, **kwargs)


class NarrowRequest(Request):
    """Does not take back what it has."""

    def __init__(self, url, tag):
        super().__init__(url, meta={"tag": tag})


class ShiftyRequest(Request):
    attributes = (*Request.attributes, "tag")

    def __init__(self, *args, tag="", **kwargs):
        self.tag = f"{tag}!"
        super().__init__(*args, **kwargs)


class Outer:
    class NestedRequest(Request):
        """A class inside another."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: FormRequest(URL, formdata={"q": ["ä", "b"], "x": "1"}),
        lambda: FormRequest(URL, method="GET", formdata=[("q", "a b")]),
        lambda: JsonRequest(URL, data={"b": 1, "a": None}),
        lambda: JsonRequest(URL, data={"b": "ä"}, dumps_kwargs={"ensure_ascii": False}),
        lambda: JsonRequest(URL, body=b"{}", method="PATCH"),
        lambda: JsonRequest(URL),
        lambda: XmlRpcRequest(URL, methodname="add", params=(1, "ä")),
        lambda: XmlRpcRequest(
            URL, methodname="add", params=(1,), encoding="latin-1", dont_filter=False
        ),
        lambda: XmlRpcRequest(URL, method="GET"),
        lambda: TaggedRequest(URL, tag=("a", {1}), score=Decimal(1)),
        lambda: TaggedRequest(URL),
        lambda: Outer.NestedRequest(URL),
    ],
)
def test_subclasses_come_back(serializer, make):
    """Scrapy's own and a project's, whatever their __init__ makes of defaults."""
    request = make()
    trip(serializer, request)
    trip(serializer, request.replace(url=f"{URL}&more=1", body=b"\x00"))


def test_a_request_made_from_a_form_comes_back(serializer):
    """With the fields of the form, its encoding and its method."""
    page = HtmlResponse(
        URL,
        body="<form method=post action=/in><input name=t value=ü></form>".encode(
            "cp1252"
        ),
        encoding="cp1252",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated from Scrapy 2.19 on
        request = FormRequest.from_response(page, formdata={"user": "é"})
    assert request.encoding == "cp1252"
    trip(serializer, request)


def test_a_subclass_that_changes_its_fields_does_not_drift(serializer):
    """Nothing is added at each trip to the server and back."""
    request = UrgentRequest(URL)
    got = trip(serializer, trip(serializer, request))
    assert (got.priority, got.meta["made"]) == (10, 1)


def test_what_attributes_do_not_name_comes_back_too(serializer):
    """Instances may hold more, in slots or not."""
    assert trip(serializer, LooseRequest(URL, wait=5)).wait == 5
    request: Any = SlottedRequest(URL, tag=1)
    request.note = {"x": 1}
    request._SlottedRequest__hidden = "else"
    request.extra = (1,)
    got = trip(serializer, request)
    assert (got.note, got.hidden, got.extra) == ({"x": 1}, "else", (1,))


def test_instances_that_hold_live_objects_are_refused(serializer):
    """What ``attributes`` do not name is not dropped silently."""
    request = LooseRequest(URL, wait=lambda: True)
    with pytest.raises(NotEncodable, match=r"attributes\['wait'\] is .*lambda"):
        serializer.encode(request)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (NarrowRequest(URL, "x"), "does not take its `attributes` back"),
        (ShiftyRequest(URL), "makes something else of 'tag'"),
    ],
)
def test_a_class_that_cannot_be_rebuilt_is_refused(serializer, request_, reason):
    """Here, and not when another worker has popped it."""
    for _ in range(2):
        with pytest.raises(NotEncodable, match=reason):
            serializer.encode(request_)


def local_class():
    class LocalRequest(TaggedRequest):
        pass

    return LocalRequest


def test_a_class_that_cannot_be_found_is_refused(serializer, spider):
    """Unless it is given."""
    local = local_class()
    with pytest.raises(NotEncodable, match="top level of a module"):
        serializer.encode(local(URL))
    trip(RequestSerializer(spider, [local]), local(URL, tag=1))


def test_a_class_that_is_not_loaded_is_left_to_others(serializer, monkeypatch):
    """Nothing is imported; a worker with that module may run it."""
    data = serializer.encode(TaggedRequest(URL))
    other = RequestSerializer(ShopSpider())
    monkeypatch.delitem(sys.modules, __name__)
    with pytest.raises(UnknownCode, match=r"TaggedRequest.* not loaded"):
        other.decode(data)


def test_an_attribute_that_a_class_lost_is_left_to_others(serializer, monkeypatch):
    """A worker with the newer or older code may run it."""
    data = serializer.encode(TaggedRequest(URL, tag=1))
    monkeypatch.setattr(TaggedRequest, "attributes", Request.attributes)
    with pytest.raises(UnknownCode, match="'tag'"):
        RequestSerializer(ShopSpider()).decode(data)


# Callbacks


@pytest.mark.parametrize(
    "name",
    [
        "parse",
        "parse_product",
        "parse_again",
        "parse_async",
        "parse_generator",
        "parse_mixed",
        "parse_wrapped",
        "parse_careless",
        "parse_bound",
        "parse_static",
        "parse_class",
        "parse_aliased",
        "private",
        "_parse",
    ],
)
def test_methods_of_the_spider_are_callbacks(serializer, spider, name):
    """Inherited, private, decorated, asynchronous, static, under another name."""
    for _ in range(2):
        method = getattr(spider, name)
        got = trip(serializer, Request(URL, callback=method, errback=method))
        assert got.callback == method


def test_a_callback_comes_back_bound_to_the_spider_that_runs(serializer, spider):
    """The one that decodes, in another process usually."""
    other = ShopSpider()
    request = Request(
        URL, spider.parse_product, meta={"x": [spider.parse_async, spider]}
    )
    got = RequestSerializer(other).decode(serializer.encode(request))
    assert got.callback == other.parse_product
    assert got.meta == {"x": [other.parse_async, other]}


def test_an_alias_that_the_spider_gives_a_method_is_a_callback(serializer, spider):
    """``spider.alias = helper.method``; by what it is at that time."""
    first, second = Helper(), Helper()
    spider.alias = first.parse_part
    data = serializer.encode(Request(URL, first.parse_part))
    trip(serializer, Request(URL, first.parse_part))
    spider.alias = second.parse_part
    assert serializer.decode(data).callback == second.parse_part
    with pytest.raises(NotEncodable):
        serializer.encode(Request(URL, first.parse_part))


def test_no_callback_and_none_are_told_apart(serializer):
    """``None`` means ``parse``; ``NO_CALLBACK`` means none at all."""
    assert trip(serializer, Request(URL)).callback is None
    assert trip(serializer, Request(URL, NO_CALLBACK)).callback is NO_CALLBACK


def test_callbacks_of_crawl_spiders_come_back():
    """Rules use methods of Scrapy's own spider classes."""
    spider = CrawlSpider(name="rules")
    serializer = RequestSerializer(spider)
    trip(serializer, Request(URL, spider._callback, errback=spider._errback))


class OverridingSpider(ShopSpider):
    name = "overriding"

    async def parse_async(self, response): ...

    def inherited(self):
        return super().parse_async


@pytest.mark.parametrize(
    ("callback", "named"),
    [
        (lambda _: None, "<lambda>"),
        (parse_elsewhere, "parse_elsewhere"),
        (functools.partial(parse_elsewhere, 1), "type partial"),
        (Helper().parse_part, "Helper.parse_part"),
        (ShopSpider().parse_product, "ShopSpider.parse_product"),
        (OverridingSpider().inherited(), "ShopSpider.parse_async"),
        (ShopSpider().closed, "ShopSpider.closed"),
        (ShopSpider.from_crawler, "ShopSpider.from_crawler"),
        (print, "builtins.print"),
        (Bound(parse_elsewhere), "type Bound"),
    ],
)
@pytest.mark.parametrize("field", ["callback", "errback", "meta"])
def test_other_functions_are_refused(serializer, spider, callback, named, field):
    """The text names request, field, function and remedy."""
    value = {"next": callback} if field == "meta" else callback
    with pytest.raises(NotEncodable) as caught:
        serializer.encode(request_with(**{field: value}))
    message = str(caught.value)
    assert message.startswith(f"<GET {URL}>: {field}")
    if field != "meta":
        assert named in message
        assert "self.<method>" in message


def test_a_function_that_only_the_instance_has_is_refused(serializer, spider):
    """Nothing tells that other workers have the same one."""
    spider.closure = lambda _: None
    with pytest.raises(NotEncodable):
        serializer.encode(Request(URL, spider.closure))


def test_a_method_of_an_overridden_name_is_refused():
    """By its name another worker would find the override."""
    spider = OverridingSpider()
    with pytest.raises(NotEncodable):
        RequestSerializer(spider).encode(Request(URL, spider.inherited()))


def test_looking_for_a_method_runs_no_property(serializer, spider):
    """Neither when a request is written nor when it is read."""
    with pytest.raises(NotEncodable):
        serializer.encode(Request(URL, parse_elsewhere))
    for name in ("page", "cached"):
        with pytest.raises(UnknownCode):
            serializer.decode(forged(callback=name))
    assert spider.touched == []


# Values


class ShopItem(Item):
    title = Field()
    prices = Field()


def test_an_item_in_meta_comes_back(serializer):
    """Spiders fill an item over several pages."""
    item = ShopItem(title="x", prices=[Decimal(1)])
    got = trip(serializer, Request(URL, cb_kwargs={"item": item, "empty": ShopItem()}))
    assert type(got.cb_kwargs["item"]) is ShopItem
    assert got.cb_kwargs["item"] is not item


class StandIn:
    """Like scrapy-playwright's class, for where that is not installed."""

    def __init__(self, method, *args, **kwargs):
        self.method = method
        self.args = args
        self.kwargs = kwargs
        self.result = None


StandIn.__module__ = "scrapy_playwright.page"


@pytest.fixture
def page_method(monkeypatch):
    try:
        from scrapy_playwright.page import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
            PageMethod,
        )
    except ImportError:
        module: Any = types.ModuleType("scrapy_playwright.page")
        module.PageMethod = StandIn
        monkeypatch.setitem(sys.modules, "scrapy_playwright.page", module)
        return StandIn
    return PageMethod


def test_browser_requests_come_back(serializer, spider, page_method, monkeypatch):
    """With their page methods; what those returned is not part of them."""
    steps = [
        page_method("wait_for_selector", "div.x", timeout=500),
        page_method(spider.parse_async, (1, 2)),
    ]
    steps[0].result = object()
    meta = {
        "playwright": True,
        "playwright_context": "acc1",
        "playwright_context_kwargs": {"storage_state": {"cookies": [], "origins": []}},
        "playwright_page_goto_kwargs": {"wait_until": "load"},
        "playwright_page_methods": steps,
    }
    data = serializer.encode(Request(URL, meta=meta))
    got = serializer.decode(data).meta
    first, second = got.pop("playwright_page_methods")
    assert got == {k: v for k, v in meta.items() if k in got}
    assert type(first) is page_method
    assert (first.method, first.args) == ("wait_for_selector", ("div.x",))
    assert (first.kwargs, first.result) == ({"timeout": 500}, None)
    assert (second.method, second.args) == (spider.parse_async, ((1, 2),))
    meta["playwright_page_methods"] = {"first": page_method(lambda _: None)}
    with pytest.raises(NotEncodable, match=r"\['first'\]"):
        serializer.encode(Request(URL, meta=meta))
    monkeypatch.delitem(sys.modules, "scrapy_playwright.page")
    with pytest.raises(UnknownCode, match="scrapy-playwright"):
        serializer.decode(data)


def test_the_page_of_a_failed_download_is_left_behind(serializer):
    """A retry opens a new one. A page that the spider passes on cannot be stored."""
    page = object()
    with pytest.raises(NotEncodable, match="playwright_page"):
        serializer.encode(Request(URL, meta={"playwright_page": page}))
    retry = Request(URL, meta={"playwright_page": page, "retry_times": 1})
    assert serializer.decode(serializer.encode(retry)).meta == {"retry_times": 1}
    assert retry.meta["playwright_page"] is page


RESPONSE = HtmlResponse(URL, body=b"<a>x</a>")


@pytest.mark.parametrize(
    "value",
    [
        RESPONSE,
        RESPONSE.css("a"),
        RESPONSE.css("a")[0],
        Selector(text="x"),
        LinkExtractor(),
        threading.Lock(),
        (letter for letter in "ab"),
        RESPONSE.headers,
        Request(URL),
        ShopItem,
        parse_elsewhere,
        NO_CALLBACK,
        ShopSpider(),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("field", ["meta", "cb_kwargs"])
def test_live_objects_are_refused(serializer, value, field):
    """One line: request, path, type, remedy."""
    with pytest.raises(NotEncodable) as caught:
        serializer.encode(request_with(**{field: {"x": [value]}}))
    message = str(caught.value)
    assert message.startswith(f"<GET {URL}>: {field}['x'][0] is ")
    assert "\n" not in message


@pytest.mark.parametrize("field", ["meta", "cb_kwargs", "cookies", "flags"])
def test_values_without_end_are_refused(serializer, field):
    """Two thousand levels, or a value inside itself."""
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    endless: list[object] = []
    endless.append(endless)
    for value in (deep, endless):
        wrapped = {"x": value} if field in {"meta", "cb_kwargs"} else [value]
        with pytest.raises(NotEncodable, match="nested more than"):
            serializer.encode(request_with(**{field: wrapped}))


def test_a_chain_of_metas_comes_back_while_it_is_short(serializer):
    """Each page keeps its parent's meta."""
    meta: dict[str, object] = {}
    for depth in range(150):
        meta = {"depth": depth, "parent": meta}
    trip(serializer, Request(URL, meta=meta))


def test_large_requests_come_back_and_too_large_ones_do_not(spider):
    """The limit is for all of a request, before compression."""
    serializer = RequestSerializer(spider)
    large = Request(URL, method="POST", body=os.urandom(10 * 2**20))
    assert serializer.decode(serializer.encode(large)).body == large.body
    text = Request(URL, meta={"html": "<p>" * 2**20})
    assert len(serializer.encode(text)) < 50_000
    trip(serializer, text)
    small = RequestSerializer(spider, max_bytes=1000)
    with pytest.raises(NotEncodable, match=f"^<GET {URL[:20]}.*more than the 1000"):
        small.encode(text)
    with pytest.raises(NotDecodable, match="more than 1000"):
        small.decode(serializer.encode(text))


class BrokenRequest(Request):
    @property
    def body(self):
        raise RuntimeError("broken")

    def __repr__(self):
        raise RuntimeError("broken")


def test_whatever_a_class_does_is_an_error_of_one_kind(serializer):
    """The scheduler never sees another exception."""
    with pytest.raises(NotEncodable, match=r"^<BrokenRequest>: .*broken"):
        serializer.encode(BrokenRequest(URL))


# Descriptions


def test_a_request_that_cannot_be_stored_can_be_described(serializer):
    """For the dead letters: who reads them learns what it was."""
    request = TaggedRequest(
        URL,
        callback=parse_elsewhere,
        method="POST",
        priority=5,
        meta={"x": threading.Lock()},
    )
    data = serializer.describe(request)
    assert describe_payload(data) == {
        "url": URL,
        "method": "POST",
        "priority": 5,
        "callback": f"{__name__}.parse_elsewhere",
        "errback": None,
        "class": f"{__name__}:TaggedRequest",
        "complete": False,
    }
    with pytest.raises(NotDecodable, match="only its description"):
        serializer.decode(data)


def test_anything_can_be_described(spider):
    """As far as it can be read."""
    request: Any = BrokenRequest("data:," + "x" * 2**20, priority=2**70)
    request.method = Priority.HIGH
    request.callback = functools.partial(print)
    described = describe_payload(
        RequestSerializer(spider, max_bytes=10).describe(request)
    )
    assert described["method"] == str(Priority.HIGH)
    assert described["priority"] == 2**70
    assert described["callback"] == "an object of type partial"
    assert len(described["url"]) < 10_000


def test_a_stored_request_is_described_without_its_spider(serializer, spider):
    """Tools show what is in the frontier."""
    request = JsonRequest(
        URL, callback=spider.parse_product, meta={"next": spider.parse_async}
    )
    described = describe_payload(serializer.encode(request))
    assert described["callback"] == "parse_product"
    assert described["class"] == "JsonRequest"
    assert described["meta"] == {"next": "spider.parse_async"}
    assert described["complete"] is True


# Forged payloads


class Exploit:
    """Leaves a trace if it is ever unpickled."""

    ran: ClassVar[list[int]] = []

    def __reduce__(self):
        return Exploit.ran.append, (1,)


def forged(**fields):
    """A payload as our own code would not make it."""
    numbers = {name: number for number, name in payload.NAMES.items()}
    numbers |= {
        "class_": payload.CLASS,
        "attributes": payload.ATTRIBUTES,
        "state": payload.STATE,
    }
    codec = Codec()
    values = {numbers[name]: value for name, value in {"url": URL, **fields}.items()}
    return payload.seal(codec.pack(codec.wire(values)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_not_run(serializer, protocol):
    """There is no code here that could."""
    data = pickle.dumps(Exploit(), protocol)
    for attack in (data, b"\xc1\x01" + data, forged(meta={"x": data})):
        with contextlib.suppress(NotDecodable):
            serializer.decode(attack)
    assert Exploit.ran == []


@pytest.mark.parametrize(
    "fields",
    [
        {"callback": "__class__"},
        {"callback": "__init__"},
        {"callback": "__getattribute__"},
        {"callback": "close"},
        {"callback": "closed"},
        {"callback": "from_crawler"},
        {"callback": "update_settings"},
        {"callback": "start"},
        {"callback": "crawler.stop"},
        {"callback": "crawler"},
        {"callback": "settings"},
        {"callback": "link_extractor"},
        {"callback": "touched"},
        {"callback": "name"},
        {"callback": "page"},
        {"callback": "cached"},
        {"callback": "nothing"},
        {"callback": ""},
        {"callback": "parse\n"},
        {"callback": b"parse"},
        {"callback": True},
        {"callback": ["parse"]},
        {"callback": None},
        {"errback": "close"},
        {"class_": "os:system"},
        {"class_": "os.system"},
        {"class_": "builtins:exec"},
        {"class_": "subprocess:Popen"},
        {"class_": "scrapy.http:Response"},
        {"class_": "scrapy.spiders:Request"},
        {"class_": f"{__name__}:ShopSpider"},
        {"class_": f"{__name__}:Exploit.ran"},
        {"class_": f"{__name__}:Exploit.ran.append"},
        {"class_": f"{__name__}:Nothing"},
        {"class_": "no.such.module:Request"},
        {"class_": "antigravity:Request"},
        {"class_": ":"},
        {"class_": 99},
        {"class_": True},
        {"class_": [1]},
        {"class_": {}},
        {"url": "no scheme"},
        {"url": b"http://shop.example/"},
        {"method": 5},
        {"headers": [1]},
        {"headers": {"a": {"b": "c"}}},
        {"body": "text"},
        {"encoding": "no-such-encoding", "url": "http://shop.example/ü?ü"},
        {"priority": "1"},
        {"meta": "text"},
        {"cb_kwargs": []},
        {"class_": 1, "attributes": {"formdata": {"a": "b"}}},
        {"class_": 1, "attributes": {5: 1}},
        {"class_": 2, "attributes": {"dumps_kwargs": 5}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"replace": 1}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"tag": 1}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"url": 1}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"__class__": 1}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"_url": 1}},
        {"class_": f"{__name__}:TaggedRequest", "state": {"attributes": ["url"]}},
        {"class_": 1, "state": {"extra": 1}},
        {"state": {"extra": 1}},
    ],
    ids=repr,
)
def test_forged_fields_do_nothing(serializer, spider, fields):
    """They are refused before anything that they name is touched."""
    before = set(sys.modules)
    with pytest.raises((NotDecodable, UnknownCode)):
        serializer.decode(forged(**fields))
    assert spider.touched == []
    assert set(sys.modules) == before, "nothing was imported"


def test_hooks_are_told_from_callbacks_that_others_may_have(serializer):
    """A forged name is damage; an unknown one may be newer code."""
    with pytest.raises(NotDecodable, match="no callback is called"):
        serializer.decode(forged(callback="from_crawler"))
    with pytest.raises(UnknownCode, match="lacks here"):
        serializer.decode(forged(callback="parse_review"))


@pytest.mark.parametrize(
    "value",
    [
        [16, "close"],
        [16, "from_crawler"],
        [16, 5],
        [16],
        [16, "nothing"],
        [18, "os:system", {}],
        [18, f"{__name__}:ShopItem", {"no_field": 1}],
        [18, f"{__name__}:ShopSpider", {}],
        [18, f"{__name__}:ShopItem"],
        [19, "click"],
        [20, 1],
    ],
    ids=repr,
)
def test_forged_values_do_nothing(serializer, spider, value):
    """Methods and items inside meta are held to the same rules."""
    codec = Codec()
    data = payload.seal(codec.pack({payload.URL: URL, payload.META: {"x": value}}))
    with pytest.raises((NotDecodable, UnknownCode)):
        serializer.decode(data)
    assert spider.touched == []


def test_a_module_that_loads_itself_lazily_is_not_asked(serializer, monkeypatch):
    """Its ``__getattr__`` would import more."""
    asked: list[str] = []
    module: Any = types.ModuleType("lazy_module")
    module.__getattr__ = asked.append
    monkeypatch.setitem(sys.modules, "lazy_module", module)
    with pytest.raises(UnknownCode):
        serializer.decode(forged(class_="lazy_module:AnyRequest"))
    assert asked == []


@given(st.binary(max_size=40), st.booleans())
def test_random_payloads_are_refused(data, sealed):
    """With one of the two errors, or they happen to be requests."""
    serializer = RequestSerializer(ShopSpider())
    with contextlib.suppress(NotDecodable, UnknownCode):
        serializer.decode(b"\xc1\x01" + data if sealed else data)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_byte_raises_nothing_else(place, byte):
    """Whichever byte it is."""
    serializer = RequestSerializer(ShopSpider())
    request = TaggedRequest(URL, tag=1, meta={"a": (1, Decimal(2), {3}), "b": [b"x"]})
    data = bytearray(serializer.encode(request))
    data[place % len(data)] = byte
    with contextlib.suppress(NotDecodable, UnknownCode):
        serializer.decode(bytes(data))
