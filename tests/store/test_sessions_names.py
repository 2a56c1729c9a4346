"""Which site a host is of, and what sessions are called in keys."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_redis_state.codec.errors import NotEncodable
from scrapy_redis_state.store.keys import SessionKey
from scrapy_redis_state.store.sessions import session_name, site_of
from scrapy_redis_state.store.sessions.names import session_value
from tests.processes import Programs


@pytest.mark.parametrize(
    ("given", "site"),
    [
        ("https://www.shop.example:8443/a?b#c", "shop.example"),
        ("http://user:pw@Shop.Example", "shop.example"),
        ("a.b.shop.co.uk", "shop.co.uk"),
        (".shop.co.uk", "shop.co.uk"),
        ("shop.co.uk.", "shop.co.uk"),
        ("co.uk", "co.uk"),
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("github.io", "github.io"),
        ("a.b.unknown-suffix", "b.unknown-suffix"),
        ("localhost", "localhost"),
        ("http://localhost:8000/", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("10.1.2.3:80", "10.1.2.3"),
        ("http://[::1]:8000/", "::1"),
        ("[::1]:8000", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("http://[::ffff:1.2.3.4]/", "::ffff:1.2.3.4"),
        ("::ffff:102:304", "::ffff:1.2.3.4"),
        ("1.2.3", "1.2.3"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("www.食狮.公司.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("_dmarc.shop.example", "shop.example"),
    ],
)
def test_a_host_belongs_to_its_registrable_domain(given: str, site: str) -> None:
    """Whatever scheme, port or case; an address and a short name are themselves."""
    assert site_of(given) == site


@pytest.mark.parametrize("given", ["", ".", "http://", "http://:80/", "//["])
def test_what_has_no_host_is_refused(given: str) -> None:
    """With a word about it."""
    with pytest.raises(ValueError, match="There is no host in"):
        site_of(given)


def test_no_network_and_no_file_is_used(programs: Programs, tmp_path: Path) -> None:
    """The first lookup of a process works without either."""
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from scrapy_redis_state.store.sessions import site_of\n"
        "def audit(event, args):\n"
        "    if event == 'open' and args[1] and set(str(args[1])) & set('wax+'):\n"
        "        raise SystemExit(f'writes {args[0]}')\n"
        "sys.addaudithook(audit)\n"
        "assert site_of('a.shop.co.uk') == 'shop.co.uk'\n"
    )
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
    programs.python("-c", code, env=environment).wait_for_success()
    assert list(home.iterdir()) == []


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from([0, 1, 1.0, True, Decimal(1), Decimal("0.5"), 0.5, 1j, 1 + 0j])
    | st.decimals(allow_nan=False, allow_infinity=True)
    | st.complex_numbers(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(["", "~", "~1", "~~", "1", "()", "None", '"', "\ud800"])
    | st.binary(max_size=2)
    | st.dates()
    | st.datetimes()
    | st.datetimes(
        timezones=st.sampled_from([timezone.utc, timezone(timedelta(1) / 2)])
    )
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([timezone.utc, timezone(timedelta(0), "X")])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3)
    ),
    max_leaves=4,
)


@given(VALUES, VALUES)
@example(1, Decimal("1.0"))
@example((1, "a"), (True, "a"))
@example(frozenset({0.5}), frozenset({Decimal("0.5")}))
@example("~1", 1)
@example(0, "0")
@example(0, None)
@example("", None)
@example(Decimal("0E+9999"), 0)
@example(
    datetime(2026, 1, 1, 12, tzinfo=timezone.utc),
    datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
)
def test_values_have_one_name_if_they_are_equal(one: object, other: object) -> None:
    """As keys of a dict do."""
    try:
        names = session_name(one), session_name(other)
    except NotEncodable:
        return  # too large a number
    assert (one == other) == (names[0] == names[1])


@given(VALUES)
@example("~x")
@example((1, 2))
def test_a_listed_session_can_be_asked_for(value: object) -> None:
    """Under what the list says."""
    try:
        name = session_name(value)
    except NotEncodable:
        return
    assert session_name(session_value(name)) == name
    key = SessionKey("shop.example", name, "p:")
    assert SessionKey.parse(str(key), "p:") == key


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        Decimal("nan"),
        Decimal("snan"),
        (1, float("nan")),
        Decimal("1E+99999999"),
        10**2000,
        object(),
        print,
        [1],
        bytearray(b"x"),
    ],
)
def test_what_cannot_name_a_shared_session_is_refused(value: object) -> None:
    """The caller decides what becomes of it."""
    with pytest.raises(NotEncodable):
        session_name(value)


def test_long_names_stay_short() -> None:
    """And different."""
    one, other = session_name(("x" * 1000, 1)), session_name(("x" * 1000, 2))
    assert one != other
    assert len(one) < 80


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (SessionKey("shop.example"), "sess:shop.example"),
        (SessionKey("shop.example", "bob", "p:"), "p:sess:shop.example:bob"),
        (SessionKey("127.0.0.1"), "sess:127.0.0.1"),
        (SessionKey("::1"), "sess:[::1]"),
        (SessionKey("fe80::1", "5"), "sess:[fe80::1]:5"),
        (SessionKey("fe80::1:5"), "sess:[fe80::1:5]"),
        (SessionKey("a.example", "x:y]"), "sess:a.example:x:y]"),
    ],
)
def test_keys_are_read_as_they_are_written(key: SessionKey, text: str) -> None:
    """Also those of addresses with colons."""
    assert str(key) == text
    assert SessionKey.parse(text, key.prefix) == key


@pytest.mark.parametrize("text", ["other:a", "sess:[::1", "sess:[::1]x"])
def test_other_keys_are_none_of_ours(text: str) -> None:
    """Nothing is made of them."""
    assert SessionKey.parse(text) is None
