"""Whose changes a session takes: the table of docs/explanation/sessions.rst.

``tests/adapters/test_cookies_epochs.py`` looks at them through the middleware.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scrapy_redis_state.store.sessions import Changes, Session, renewal_scripts, scripts
from tests.store.session_store import TTL, Store, cookie, names

PUBLISHED = Changes(cookies=(cookie("sid", "published"),))


@pytest.fixture
def store(scripts_store: Store) -> Store:
    return scripts_store


def nothing(_: Store) -> None:
    """It is as it was."""


def grow(store: Store) -> None:
    """The response to another request of no session made it."""
    assert not store.save_changes(cookie("first"), epoch="").stale


def publish(store: Store) -> None:
    store.run(scripts.replace(store.key(), PUBLISHED, TTL))


def invalidate(store: Store) -> None:
    store.run(scripts.invalidate(store.key(), TTL))


def begin_renewal(store: Store) -> None:
    call = renewal_scripts.claim(
        store.key(),
        "a",
        store.load_session().epoch,
        ttl=TTL,
        lease_ms=30_000,
        most_failures=3,
        back_off_ms=0,
    )
    assert store.run(call).status == "yours"


def renew(store: Store) -> None:
    begin_renewal(store)
    call = renewal_scripts.renewed(store.key(), "a", PUBLISHED, ttl=TTL)
    epoch = store.run(call).session.epoch
    store.run(renewal_scripts.proved(store.key(), epoch, ttl=TTL))


def forget(store: Store) -> None:
    """Nobody used it for its time."""
    store.client.delete(str(store.key()))


def begin_anew(store: Store) -> None:
    """It was forgotten, and has grown again."""
    forget(store)
    grow(store)


def update(store: Store) -> None:
    """A program changed it."""
    store.save_changes(cookie("first"), epoch=None)


Happening = Callable[[Store], None]

NO_SESSION = [
    (nothing, True),
    (grow, True),
    (update, True),
    (publish, False),
    (invalidate, False),
    (begin_renewal, False),
    (renew, False),
]
A_SESSION = [
    (nothing, True),
    (update, True),
    (publish, False),
    (invalidate, False),
    (begin_renewal, False),
    (renew, False),
    (forget, True),
    (begin_anew, False),
]


def named(happening: object) -> str:
    return getattr(happening, "__name__", "")


def check(store: Store, known: Session, *, taken: bool) -> None:
    """A response of what was known; worker and server must agree about it."""
    before = store.load_session()
    assert before.goes_on_from(known.epoch) == taken
    saved = store.save_changes(cookie("sid", "late"), epoch=known.epoch)
    after = store.load_session()
    assert saved.stale != taken
    assert [one.value for one in after.cookies.values()].count("late") == taken
    assert {*names(before)} <= {*names(after)}
    if not taken:
        assert after.stamp == before.stamp


@pytest.mark.parametrize(("happening", "taken"), NO_SESSION, ids=named)
def test_a_request_of_no_session(
    store: Store, happening: Happening, *, taken: bool
) -> None:
    """What grew since then is its session too; what somebody published is not."""
    known = store.load_session()
    assert not known.epoch
    happening(store)
    check(store, known, taken=taken)


@pytest.mark.parametrize(("happening", "taken"), A_SESSION, ids=named)
@pytest.mark.parametrize("beginning", [grow, publish, renew], ids=named)
def test_a_request_of_a_session(
    store: Store, beginning: Happening, happening: Happening, *, taken: bool
) -> None:
    """However that came to be."""
    beginning(store)
    known = store.load_session()
    assert known.epoch
    happening(store)
    check(store, known, taken=taken)


def test_what_grew_stays_grown_until_somebody_publishes(store: Store) -> None:
    """Requests that were sent at the beginning may be answered late."""
    known = store.load_session()
    for name in ("a", "b"):
        store.save_changes(cookie(name), epoch=store.load_session().epoch)
    check(store, known, taken=True)
    publish(store)
    store.save_changes(cookie("c"), epoch=store.load_session().epoch)
    check(store, known, taken=False)


def test_a_session_that_another_program_wrote_by_itself(store: Store) -> None:
    """With an epoch it is published; without one, nothing tells it from none."""
    known = store.load_session()
    store.put(epoch="1", version="1")
    check(store, known, taken=False)
    forget(store)
    store.put_raw("token:t", "1")
    check(store, store.load_session(), taken=True)
    check(store, known, taken=True)
