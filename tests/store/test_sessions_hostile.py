"""What other programs and sites may put into a session stops nothing, and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_redis_state.store.call import Call
from scrapy_redis_state.store.sessions import (
    Changes,
    Cookie,
    CookieKey,
    renewal_scripts,
    scripts,
)
from tests.store.session_store import SITE, TTL, Store, cookie

SECRET = "hunter2"
KEY = CookieKey(SITE, "/", "sid")
OWN = ["epoch", "grown", "recent", "schema", "updated_at", "user_agent", "version"]
RENEWAL = ["failed", "failures", "holder", "pages", "retry_at", "since", "unproven"]
FIELDS = [
    *OWN,
    *(f"renewal:{name}" for name in [*RENEWAL, "until"]),
    "headers",
    "cookie:",
    "cookie:[1]",
    KEY.field,
    cookie("a").key.field,
    "token:",
    "",
    "x",
]
VALUES = [
    "",
    "1",
    "-1",
    "1e999",
    "nan",
    "null",
    "[]",
    "{}",
    '{"*": 9e99}',
    "[null, 1, {}]",
    "[" * 2000,
    "9" * 400,
    '"\\ud800"',
    b"\xff\x00",
    json.dumps({KEY.field: 1e12, "x": "y"}),
    json.dumps({"name": "sid", "value": SECRET, "domain": 7}),
    json.dumps({"name": "sid", "domain": SITE, "expires": 1e300, "order": -1e300}),
    json.dumps({"name": "a", "value": "1", "domain": f".{SITE}", "order": "x"}),
    SECRET,
]


@pytest.fixture
def store(scripts_store: Store) -> Store:
    return scripts_store


def every_call(store: Store, epoch: str) -> list[Call[Any]]:
    key = store.key()
    changes = Changes((cookie("a", "2"), Cookie("sid", "2", SITE)), (KEY,), ("a",))
    options = {"ttl": TTL, "most_failures": 3, "back_off_ms": 1}
    return [
        scripts.load(key, TTL),
        scripts.describe(key),
        scripts.save(key, changes, epoch, TTL),
        scripts.confirm(key, [(cookie("a", "3"), 5)], epoch, TTL),
        renewal_scripts.claim(key, "h", epoch, lease_ms=1000, page="p", **options),
        renewal_scripts.hold(key, "h", ttl=TTL, lease_ms=1000),
        scripts.save(key, changes, None, TTL),
        renewal_scripts.renewal_failed(key, "h", counts=True, **options),
        renewal_scripts.claim(key, "h", epoch, lease_ms=1000, page="q", **options),
        renewal_scripts.renewed(key, "h", None, ttl=TTL),
        renewal_scripts.proved(key, epoch, ttl=TTL),
        scripts.load(key, TTL),
    ]


@pytest.mark.one_server
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES), min_size=1)
)
def test_every_step_has_an_answer(store: Store, fields: dict[str, str | bytes]) -> None:
    """Whatever is stored; it ends no script, and no value of it is in what is told."""
    store.client.delete(str(store.key()))
    mapping: Any = fields
    store.client.hset(str(store.key()), mapping=mapping)
    epoch = store.load_session().epoch
    for call in every_call(store, epoch):
        answer = store.run(call)
        session = getattr(answer, "session", answer)
        told = [*getattr(session, "skipped", ()), *getattr(answer, "refused", ())]
        assert SECRET not in str(told)
        assert SECRET not in getattr(session, "unreadable", "")


@pytest.mark.one_server
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES), min_size=1)
)
def test_a_program_that_publishes_puts_it_right(
    store: Store, fields: dict[str, str | bytes]
) -> None:
    """Unless it is of a schema that is not known."""
    store.client.delete(str(store.key()))
    mapping: Any = {n: value for n, value in fields.items() if n != "schema"}
    if not mapping:
        return
    store.client.hset(str(store.key()), mapping=mapping)
    content = Changes((cookie("sid"),))
    saved = store.run(scripts.replace(store.key(), content, TTL))
    session = store.load_session()
    assert [*session.cookies.values()] == [cookie("sid")]
    assert (session.skipped, session.renewal, session.unproven) == ((), None, False)
    assert saved.session.stamp == session.stamp
    assert session.epoch.isdigit()


def test_a_site_with_a_new_cookie_in_every_response_is_remembered_in_short(
    store: Store,
) -> None:
    """Of hundreds of changes in a few seconds it is only known that there were some."""
    store.save_changes(*(cookie(f"n{number}") for number in range(150)))
    assert len(json.loads(store.fields()["recent"])) == 150
    store.save_changes(*(cookie(f"m{number}") for number in range(150)))
    assert [*json.loads(store.fields()["recent"])] == ["*"]
    epoch = store.load_session().epoch
    store.save_changes(deleted=(cookie("n7").key,), epoch=epoch)
    late = scripts.confirm(store.key(), [(cookie("n7"), 5000)], epoch, TTL)
    assert cookie("n7").key not in store.run(late).session.cookies
