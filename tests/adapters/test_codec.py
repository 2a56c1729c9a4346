"""Values and payloads as bytes: exact, or refused; and nothing hostile gets far."""

from __future__ import annotations

import contextlib
import enum
import math
import pickle
import random
import re
import sys
import threading
import zlib
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.codec import (
    Codec,
    NotDecodable,
    NotEncodable,
    UnknownCode,
    describe_payload,
)
from scrapy_redis_state.codec import payload as layout

CODEC = Codec()


def trip(value):
    return CODEC.unpack(CODEC.pack(CODEC.wire(value)))


def fingerprint(value):
    """What tells a value from all others, of any type, order and time zone included."""
    kind = type(value)
    if kind is dict:
        return kind, [(fingerprint(k), fingerprint(v)) for k, v in value.items()]
    if kind in {list, tuple}:
        return kind, [fingerprint(each) for each in value]
    if kind in {set, frozenset}:
        return kind, sorted(map(repr, map(fingerprint, value)))
    if kind in {datetime, time}:
        plain = value.replace(tzinfo=None, fold=0)
        return kind, repr(plain), value.fold, fingerprint(value.tzinfo)
    if kind is timezone:
        return kind, value.utcoffset(None), value.tzname(None)
    if kind is ZoneInfo:
        return kind, value.key
    if kind is float:
        return kind, value.hex(), math.copysign(1, value)
    return kind, hex(value) if kind is int else repr(value)


ZONES = st.sampled_from(
    [
        timezone.utc,
        timezone(timedelta(hours=5, minutes=45)),
        timezone(timedelta(hours=-3), "BRT"),
        timezone(timedelta(seconds=-1, microseconds=3)),
        ZoneInfo("Europe/Berlin"),
        ZoneInfo("America/Argentina/Buenos_Aires"),
        ZoneInfo("UTC"),
    ]
)
TEXT = st.text(st.characters(exclude_categories=()), max_size=8)  # surrogates too
HASHABLE_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
    st.floats(),
    TEXT,
    st.binary(max_size=8),
    st.complex_numbers(),
    st.datetimes(timezones=st.none() | ZONES),
    st.dates(),
    st.times(timezones=st.none() | ZONES),
    st.timedeltas(),
    # A signalling NaN cannot be compared, so neither be a key.
    st.decimals().filter(lambda value: not value.is_snan()),
    st.uuids(),
    ZONES,
)
HASHABLES = st.recursive(
    HASHABLE_LEAVES,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE_LEAVES | st.binary(max_size=4).map(bytearray),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.sets(HASHABLES, max_size=3),
        st.frozensets(HASHABLES, max_size=3),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(HASHABLES, inner, max_size=3),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_comes_back_equal_and_of_the_same_type(value):
    """Numbers, text, bytes, dates, containers; in any combination."""
    assert fingerprint(trip(value)) == fingerprint(value)


@given(st.dictionaries(HASHABLES, st.integers(), min_size=2, max_size=6))
def test_dict_order_is_kept(value):
    """Whatever the keys are."""
    assert fingerprint(list(trip(value))) == fingerprint(list(value))


@pytest.mark.parametrize(
    "value",
    [
        "\ud800 alone",
        "\ud83d\ude00",  # two halves, and not the character they would make
        Decimal("-0.00"),
        Decimal("sNaN123"),
        Decimal("1E+999999"),
        Decimal("1." + "3" * 200),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
        time(2, 30, fold=1),
        datetime.max,  # noqa: DTZ901
        date.min,
        timedelta.max,
        UUID(int=0),
        {1: "a", "1": "b", b"1": "c", (1,): "d", None: "e", 1.5: "f"},
        {True: {(): frozenset({frozenset()})}},
        complex(0.0, -0.0),
        bytearray(),
        10**5000,
        [],
        (),
        {},
        set(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_rare_value_comes_back(value):
    """The corners that text formats lose."""
    assert fingerprint(trip(value)) == fingerprint(value)


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 1


class Shade(str, enum.Enum):
    DARK = "dark"


@dataclass
class Product:
    name: str


class Pacific(tzinfo):
    """A time zone as older libraries make them."""

    def utcoffset(self, _):
        return timedelta(hours=-8)

    def dst(self, _):
        return None

    def tzname(self, _):
        return "PST"


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        Text("x"),
        Colour.RED,
        Shade.DARK,
        Point(1, 2),
        OrderedDict(a=1),
        defaultdict(list),
        Counter("a"),
        Product("x"),
        Fraction(1, 2),
        PurePosixPath("/"),
        memoryview(b"x"),
        msgpack.ExtType(7, b"x"),
        msgpack.Timestamp(1),
        range(3),
        object(),
        threading.Lock(),
        (letter for letter in "ab"),
        int,
        len,
        sys,
        ...,
        re.match("a", "a"),
        datetime(2026, 1, 1, tzinfo=Pacific()),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize(
    "place", [lambda v: v, lambda v: {"x": [v]}, lambda v: (1, {2: v})]
)
def test_what_would_not_come_back_equal_is_refused(value, place):
    """Also where a value is like one that can be stored, and deep inside others."""
    with pytest.raises(NotEncodable, match="is of type"):
        trip(place(value))
    assert trip([1]) == [1], "the codec goes on"


def test_an_unhashable_looking_key_is_refused_as_a_value_is():
    """Keys are looked at like values."""
    with pytest.raises(NotEncodable, match="Colour; convert it with int"):
        trip({Colour.RED: 1})


def test_an_error_says_where_and_what_and_what_to_do():
    """The path in subscripts, the type, a remedy."""
    with pytest.raises(NotEncodable) as caught:
        trip({"x": [0, {"y": (threading.Lock(),)}]})
    assert caught.value.path == "['x'][1]['y'][0]"
    assert "lock" in str(caught.value)
    assert "plain values" in str(caught.value)


def test_a_subclass_is_refused_with_its_plain_type():
    """The remedy is the conversion."""
    with pytest.raises(NotEncodable, match=r"Text; convert it with str\(\)"):
        trip(Text("x"))


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"k": v}])
@pytest.mark.parametrize("depth", [201, 2000, 100_000])
def test_deep_values_are_refused(wrap, depth):
    """With an error like any other, whatever Python's limit of recursion."""
    value = None
    for _ in range(depth):
        value = wrap(value)
    with pytest.raises(NotEncodable, match="nested more than 200 levels"):
        trip(value)
    while value:  # or its destruction would be deep, too
        value = value["k"] if isinstance(value, dict) else value[0]


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"k": v}])
def test_values_up_to_the_depth_come_back(wrap):
    """The limit is the codec's own, below those of Python and MessagePack."""
    value = None
    for _ in range(200):
        value = wrap(value)
    assert trip(value) == value


def test_values_that_contain_themselves_are_refused():
    """They have no end."""
    value: list[object] = []
    value.append({"again": value})
    with pytest.raises(NotEncodable, match="contains itself"):
        trip(value)


def test_shared_parts_do_not_multiply_without_end():
    """Forty lists of two stand for a million million values."""
    value: object = 1
    for _ in range(40):
        value = [value, value]
    with pytest.raises(NotEncodable, match="too many values"):
        trip(value)


def hostile(*parts):
    return msgpack.packb(list(parts), strict_types=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xc0\xc0",
        pickle.dumps({"url": "x"}),
        b'{"url": "http://a.example/"}',
        b"\x90",  # an array without a kind
        hostile("list", 1),
        hostile(True, 1),
        hostile(1, "key without value"),
        hostile(1, [0], 1),  # unhashable key
        hostile(3, [0]),  # unhashable member
        hostile(5, "text"),
        hostile(6, 10**12),  # memory
        hostile(7, 1, 2),
        hostile(7, b"1234567890"),
        hostile(7, 2026, 13, 1, 0, 0, 0, 0, None, 0),
        hostile(7, 2026, 1, 1, 0, 0, 0, 0, "UTC", 0),
        hostile(11, 5),
        hostile(12, "../../../etc/passwd"),
        hostile(12, "/etc/localtime"),
        hostile(12, "os.path/x"),
        hostile(12, 5),
        hostile(13, "one"),
        hostile(13, 5),
        hostile(14, b"short"),
        msgpack.packb(msgpack.ExtType(1, b"")),
        msgpack.packb({1: msgpack.ExtType(16, b"x")}),
        b"\x81\x80\x01",  # a map as key
        b"\xdd\xff\xff\xff\xff",  # claims 4 billion values
        b"\xdf\xff\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xffxx",
        b"\x92\x00" * 100_000 + b"\xc0",
        b"\xa1\xff",  # not UTF-8
    ],
    ids=lambda data: f"{data[:20]!r}",
)
def test_damaged_bytes_are_not_decodable(data):
    """Nothing but NotDecodable, whatever the bytes."""
    with pytest.raises(NotDecodable):
        CODEC.unpack(data)


@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing_else(data):
    """They may be values by accident."""
    with contextlib.suppress(NotDecodable, UnknownCode):
        CODEC.unpack(data)


def test_a_kind_of_a_newer_version_is_left_to_others():
    """Another worker may know it."""
    with pytest.raises(UnknownCode, match="kind 99"):
        CODEC.unpack(hostile(99, 1))


def test_a_time_zone_that_this_machine_lacks_is_left_to_others():
    """Another worker may have newer data."""
    with pytest.raises(UnknownCode, match="Mars/Olympus"):
        CODEC.unpack(hostile(12, "Mars/Olympus"))


FIELDS = {layout.URL: "http://a.example/"}


def sealed(fields, **kwargs):
    return layout.seal(CODEC.pack(CODEC.wire(fields)), **kwargs)


def test_a_small_payload_is_plain():
    """Two bytes before the fields."""
    assert sealed(FIELDS) == b"\xc1\x01" + CODEC.pack(FIELDS)


def test_a_large_payload_is_compressed_if_that_helps():
    """Random data stays as it is."""
    text = FIELDS | {layout.META: {"html": "<p>text</p>" * 1000}}
    noise = FIELDS | {layout.BODY: random.Random(1).randbytes(5000)}
    assert len(sealed(text)) < 400
    assert len(sealed(noise)) <= len(CODEC.pack(noise)) + 2
    for fields in (text, noise):
        assert CODEC.unpack(layout.unseal(sealed(fields))) == fields


def test_a_payload_has_a_maximum_size():
    """It is counted before compression, which is what a reader has to hold."""
    fields = FIELDS | {layout.META: {"html": "x" * 5000}}
    with pytest.raises(NotEncodable, match="more than the 4096"):
        sealed(fields, max_bytes=4096)
    with pytest.raises(NotDecodable, match="more than 4096"):
        layout.unseal(sealed(fields), max_bytes=4096)


def test_a_compression_bomb_is_not_unfolded():
    """10 kB that claim to be 10 MB are refused at the limit."""
    bomb = b"\xc1\x81" + zlib.compress(bytes(10 * 2**20), 9)
    assert len(bomb) < 11_000
    with pytest.raises(NotDecodable, match="more than 1048576"):
        layout.unseal(bomb, max_bytes=2**20)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"http://a.example/",
        pickle.dumps(FIELDS, protocol=0),
        pickle.dumps(FIELDS, protocol=5),
        b"\x80\x04\x95",
        b'{"url": "http://a.example/"}',
        b"\xc1\x00\x80",
        b"\xc1\x80\x80",
        b"\xc1\x01",
        b"\xc1\x01\xc0",
        b"\xc1\x01\x80",
        b"\xc1\x01\x81\xa3url\x01",
        b"\xc1\x81",
        b"\xc1\x81not compressed",
        b"\xc1\x81" + zlib.compress(b"\x81\x00\xa1x") + b"more",
        b"\xc1\x81" + zlib.compress(b"\x81\x00\xa1x")[:-2],
        sealed({layout.URL: 5}),
        sealed(FIELDS | {layout.META: [1]}),
        sealed(FIELDS | {layout.PRIORITY: True}),
    ],
    ids=lambda payload: f"{payload[:20]!r}",
)
def test_what_is_no_payload_is_not_described(payload):
    """Pickles, JSON, URLs and damaged payloads are told apart from ours."""
    with pytest.raises(NotDecodable):
        describe_payload(payload)


@pytest.mark.parametrize(
    "payload", [b"\xc1\x02?", b"\xc1\xff?", sealed({0: "x", 19: 1})]
)
def test_a_newer_format_is_told_from_damage(payload):
    """A worker of that version may be running."""
    with pytest.raises(UnknownCode, match="version"):
        describe_payload(payload)


def test_a_payload_is_described_without_a_spider():
    """Methods and the like are shown as text; defaults are filled in."""
    fields = FIELDS | {
        layout.META: {"depth": 1, "next": [0]},
        layout.CALLBACK: "parse_x",
        layout.ERRBACK: False,
        layout.CLASS: 2,
        layout.ATTRIBUTES: {"dumps_kwargs": {"sort_keys": True}},
    }
    raw = msgpack.packb(fields)
    raw = raw.replace(b"\x91\x00", b"\x92\x10\xa7parse_y")  # a spider's method
    assert describe_payload(layout.seal(raw)) == {
        "url": "http://a.example/",
        "method": "GET",
        "callback": "parse_x",
        "errback": "NO_CALLBACK",
        "priority": 0,
        "meta": {"depth": 1, "next": "spider.parse_y"},
        "class": "JsonRequest",
        "dumps_kwargs": {"sort_keys": True},
        "complete": True,
    }
