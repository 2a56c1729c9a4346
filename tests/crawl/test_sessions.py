"""Crawls whose workers share their cookies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.keys import CrawlKeys
from tests.crawl.crawls import (
    Crawls,
    finish,
    stats,
    total,
    wait_for_items,
    wait_until_joined,
)
from tests.crawl.members import Members
from tests.processes import Program, wait_until

pytestmark = pytest.mark.one_server

BY_HAND = {
    "ADDONS": "{}",
    "DOWNLOADER_MIDDLEWARES": json.dumps(
        {
            "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
            "scrapy_redis_state.cookies.CookiesMiddleware": 700,
        }
    ),
}
"""The middleware without any other part of the package."""


class MembersCrawls:
    """Starts workers of the spider ``members``, with a key prefix of the test."""

    def __init__(self, crawls: Crawls, site: Members) -> None:
        self.crawls, self.site = crawls, site
        self.prefix = f"{crawls.bot}-"

    def start(
        self, settings: Mapping[str, object] | None = None, **arguments: Any
    ) -> Program:
        ours = {"REDIS_STATE_KEY_PREFIX": self.prefix, "USER_AGENT": "project/1"}
        arguments.setdefault("site", self.site.url)
        return self.crawls.start(
            "members", settings={**ours, **(settings or {})}, **arguments
        )

    def state(self) -> CrawlState:
        return self.crawls.state("members", self.prefix)

    def start_together(self, count: int, **options: Any) -> list[Program]:
        """Workers that are all there before the first page is answered."""
        with self.site.held():
            workers = [self.start(**options) for _ in range(count)]
            wait_until_joined(*workers)
        return workers


@pytest.fixture
def members(crawls: Crawls) -> Iterator[MembersCrawls]:
    with Members() as site:
        yield MembersCrawls(crawls, site)


def everyone_worked(crawls: Crawls, *workers: Program) -> None:
    assert all(crawls.items(worker) for worker in workers)


@pytest.mark.parametrize("reactor", [True, False])
def test_a_login_is_known_to_whoever_takes_a_page(
    crawls: Crawls, members: MembersCrawls, *, reactor: bool
) -> None:
    """A03: each page has the cookie that one worker was given."""
    workers = members.start_together(
        3,
        users="ann",
        pages=40,
        query="delay=0.1",
        settings={"TWISTED_REACTOR_ENABLED": reactor},
    )
    finish(*workers)
    assert crawls.values("user") == {"ann": 40}
    assert {visit.cookie for visit in members.site.seen("/detail")} == {"sid=ann"}
    assert len(members.site.seen("/login")) == 1
    everyone_worked(crawls, *workers)


def test_pages_cost_no_round_trip(crawls: Crawls, members: MembersCrawls) -> None:
    """Of hundreds, only the background asks, once in a while."""
    since = time.monotonic()
    worker = members.start(users="ann", pages=400, settings={"CONCURRENT_REQUESTS": 8})
    finish(worker)
    counted = stats(worker)
    assert crawls.values("user") == {"ann": 400}
    assert counted["redis_state/sessions/saved"] == 1
    elapsed = time.monotonic() - since
    assert counted["redis_state/sessions/loaded"] <= 3 + 1.3 * elapsed


def test_what_expires_in_the_queue_is_not_sent(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """A04: the header is made when a request is sent, of what there is then."""
    arguments: dict[str, Any] = {"users": "ann", "login": "cookie=t=1;Path=/;Max-Age=3"}
    first = members.start(
        **arguments,
        settings={"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1},
    )
    first.wait_for_success()
    early = len(members.site.seen("/detail"))
    with members.state() as state:
        wait_until(lambda: state.size() >= 15, 10)
        wait_until(lambda: "t" not in state.sessions.load(members.site.url), 10)
        state.sessions.update(members.site.url, {"t": "2"})
    finish(members.start(**arguments))
    late = {visit.cookie for visit in members.site.seen("/detail")[early:]}
    assert late == {"sid=ann; t=2"}
    assert crawls.values("user") == {"ann": 20}


def test_a_restart_of_all_keeps_the_login(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """A01: the next run, also of another crawl, goes on with the session."""
    finish(members.start(users="ann", pages=2, login="cookie=p=1;Max-Age=86400"))
    workers = members.start_together(
        2, pages=20, query="delay=0.1", settings={"REDIS_STATE_CRAWL_ID": crawls.bot}
    )
    finish(*workers)
    assert len(members.site.seen("/login")) == 1
    assert {visit.user for visit in members.site.seen("/detail")} == {"ann"}
    assert crawls.values("user") == {"ann": 22}


def test_two_accounts_never_mix(crawls: Crawls, members: MembersCrawls) -> None:
    """A23: whoever takes a page, at a retry and after a redirect too."""
    workers = members.start_together(
        2,
        users="ann,bob",
        pages=20,
        query="status=503&times=1&delay=0.05",
    )
    finish(*workers)
    items = crawls.items()
    assert len(items) == 40
    assert all(item["user"] == item["wanted"] for item in items)
    for user in ("ann", "bob"):
        visits = members.site.seen(f"/detail/{user}")
        assert len(visits) == 40
        assert {visit.cookie for visit in visits} == {f"sid={user}"}
    everyone_worked(crawls, *workers)


def test_redirects_are_followed_with_what_they_set(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """A10: whoever follows them sends the new value, and nothing to another host."""
    near = "cookie=v=new;Path=/&location=/landed/near"
    with members.state() as state:
        state.sessions.save(members.site.url, {"v": "old"})
    workers = members.start_together(2, pages=15, query=f"delay=0.1&{near}NUMBER")
    finish(*workers)
    landed = members.site.seen("/landed/near")
    assert len(landed) == 15
    assert {visit.cookie for visit in landed} == {"v=new"}
    everyone_worked(crawls, *workers)
    far = f"location={members.site.other_url}/landed/far"
    finish(
        members.start(
            pages=3,
            query=f"{far}NUMBER",
            settings={"REDIS_STATE_CRAWL_ID": crawls.bot},
        )
    )
    assert [visit.cookie for visit in members.site.seen("/landed/far")] == [""] * 3


def test_what_another_program_publishes_is_used_within_a_second(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """Cookies and what they are bound to, in all workers; and their end."""
    workers = members.start_together(2, pages=900, query="delay=0.2")
    site = members.site
    wait_for_items(crawls, 10)
    with members.state() as state:
        state.sessions.save(site.url, {"sid": "ann"}, user_agent="browser/1")
        published = time.time()
        wait_until(lambda: site.log[-1].at > published + 3)
        state.sessions.invalidate(site.url)
        ended = time.time()
        wait_until(lambda: site.log[-1].at > ended + 3)
    for worker in workers:
        worker.terminate()
        worker.wait_for_success()
    visits = site.seen("/detail")
    for visit in visits:
        # A request may have been on its way, and the machine busy.
        if published + 2 < visit.at < ended:
            assert (visit.user, visit.agent) == ("ann", "browser/1")
        elif visit.at < published or visit.at > ended + 2:
            assert (visit.user, visit.agent) == ("", "project/1")
    assert {visit.agent for visit in visits} == {"project/1", "browser/1"}
    assert any(visit.at > ended + 2 for visit in visits)


def test_a_worker_that_rejoins_forgets_what_it_knew(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """Sessions too: a server that lost something may have lost them."""
    settings = {
        "EXTENSIONS": json.dumps({"tests.crawl.project.old_sessions.OldSessions": 1}),
        "CONCURRENT_REQUESTS": 1,
        "DOWNLOAD_DELAY": 0.02,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
    }
    with members.state() as state:
        state.sessions.save(members.site.url, {"sid": "ann"})
        worker = members.start(pages=300, settings=settings)
        wait_until(lambda: members.site.seen("/detail"), 30)
        state.sessions.save(members.site.url, {"sid": "bob"})
        known = len(members.site.seen("/detail"))
        wait_until(lambda: len(members.site.seen("/detail")) > known + 5, 30)
    keys = CrawlKeys(f"{crawls.bot}:members", members.prefix)
    crawls.client.delete(keys.named("workers"))
    wait_until(lambda: "bob" in {visit.user for visit in members.site.log}, 30)
    worker.terminate()
    worker.wait_for_success()
    users = [visit.user for visit in members.site.seen("/detail")]
    assert {*users[: known + 5]} == {"ann"}
    assert users == sorted(users)
    assert stats(worker)["redis_state/rejoins"] == 1


def test_requests_that_do_not_merge_are_left_alone(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """A20: they read nothing of the session and store nothing in it."""
    with members.state() as state:
        state.sessions.save(members.site.url, {"sid": "ann"})
        worker = members.start(
            pages=5, query="cookie=x=1", meta=json.dumps({"dont_merge_cookies": True})
        )
        finish(worker)
        assert state.sessions.load(members.site.url) == {"sid": "ann"}
    assert [visit.cookie for visit in members.site.seen("/detail")] == [""] * 5


def test_without_cookies_nothing_is_shared(
    crawls: Crawls, members: MembersCrawls
) -> None:
    """A20: COOKIES_ENABLED = False switches ours off as it does Scrapy's."""
    finish(members.start(users="ann", pages=5, settings={"COOKIES_ENABLED": False}))
    assert crawls.values("user") == {"": 5}
    assert not list(crawls.client.scan_iter("*sess:*"))


def test_cookies_alone_are_shared(crawls: Crawls, members: MembersCrawls) -> None:
    """The middleware needs no other part of the package: two ordinary crawls."""
    finish(members.start(users="ann", pages=2, settings=BY_HAND))
    worker = members.start(pages=5, settings=BY_HAND)
    finish(worker)
    assert crawls.values("user") == {"ann": 7}
    assert stats(worker)["redis_state/sessions/loaded"] >= 1
    assert not list(crawls.client.scan_iter("*crawl:*"))


def test_cookies_alone_need_no_server(crawls: Crawls, members: MembersCrawls) -> None:
    """Without one, each process has its own."""
    settings = BY_HAND | {"REDIS_STATE_URL": "redis://127.0.0.1:1/0"}
    worker = members.start(users="ann", pages=10, settings=settings)
    finish(worker)
    assert crawls.values("user") == {"ann": 10}
    assert worker.output.count("Sessions are not shared for now") == 1


@pytest.mark.parametrize("command", ["fetch", "shell", "parse"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_commands_that_look_at_a_page_need_no_server(
    crawls: Crawls, members: MembersCrawls, command: str, *, by_hand: bool
) -> None:
    """They have cookies of their own, and ask for no server."""
    settings = {
        **(BY_HAND if by_hand else {}),
        "REDIS_STATE_URL": "redis://127.0.0.1:1/0",
    }
    options = [f"--set={name}={value}" for name, value in settings.items()]
    page = f"{members.site.url}/first?cookie=v=1&location=/second"
    if command == "shell":
        options += ["-c", "response.url"]
    if command == "parse":
        options += ["--spider", "members", "-c", "parse_login"]
        options += ["-a", f"site={members.site.url}"]
    program = crawls.programs.scrapy(command, page, *options, env=crawls.project)
    program.wait_for_success()
    assert [visit.cookie for visit in members.site.seen("/second")] == ["v=1"]
    assert "Sessions are not shared" not in program.output


def test_an_outage_fails_no_page(members: MembersCrawls, fresh_server: Any) -> None:
    """The sessions' server goes away and comes back; the crawl's stays."""
    crawls, away = members.crawls, fresh_server(appendonly=True)
    settings = {"REDIS_STATE_URL": away.url, **BY_HAND, "CONCURRENT_REQUESTS": 1}
    query = "delay=0.02&cookie=vNUMBER=1;Path=/"
    worker = members.start(users="ann", pages=150, query=query, settings=settings)
    wait_for_items(crawls, 30)
    away.kill()
    worker.wait_for_output("Sessions are not shared for now")
    wait_for_items(crawls, 70)
    away.start()
    worker.wait_for_output("Sessions are shared again")
    finish(worker)
    assert crawls.values("user") == {"ann": 150}
    with CrawlState.connect(away.url, crawl="x", prefix=members.prefix) as state:
        assert len(state.sessions.load(members.site.url)) == 151


def test_a_kill_loses_no_login(crawls: Crawls, members: MembersCrawls) -> None:
    """What a response set is stored before its page can be done."""
    arguments: dict[str, Any] = {"users": "ann", "pages": 40, "query": "delay=0.1"}
    first = members.start(**arguments)
    wait_for_items(crawls, 3)
    first.kill()
    finish(members.start(**arguments))
    assert {visit.user for visit in members.site.seen("/detail")} == {"ann"}
    assert len(members.site.seen("/login")) == 1
    assert total("redis_state/sessions/stale", crawls.programs) == 0
