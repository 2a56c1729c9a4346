"""The example's members' area: one login and one solved challenge for all workers."""

from __future__ import annotations

import importlib
import json
import shutil
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
from scrapy.utils.test import get_crawler

from tests.conftest import IN_CI
from tests.crawl.example import (
    PRODUCTS,
    RESUMED,
    Example,
    assert_all_is_accounted_for,
    figure,
    outcome,
    wait_until_gone,
)
from tests.processes import Program

MEMBERS = ("--spider", "members")
NO_BROWSER = ("--browser", "")
SOLVER = "Mozilla/5.0 (compatible; small solver)"


def lines(example: Example, pattern: str) -> dict[str, list[Any]]:
    """What the processes of a run wrote, by file."""
    files = (example.directory / "example").glob(pattern)
    return {
        file.name: [json.loads(line) for line in file.read_text().splitlines()]
        for file in files
    }


def assert_one_session_for_all(example: Example, run: Program, agent: str) -> None:
    """Several workers used what one of them, or the browser, was granted as *agent*."""
    assert figure(run, "logins") == figure(run, "challenges solved") == 1, str(run)
    assert f"  as {agent}" in run.output, str(run)
    workers = lines(example, "worker-*.jsonl")
    in_outlet = [
        name
        for name, items in workers.items()
        if any("/outlet/" in item["url"] for item in items)
    ]
    assert len(in_outlet) > 1, workers
    prices = {item["id"]: item["price"] for items in workers.values() for item in items}
    assert prices == {id: f"{id % 90 + 7}.90" for id in range(1, PRODUCTS + 1)}
    for hit in lines(example, "access.jsonl")["access.jsonl"]:
        if hit["path"].startswith(("/outlet/", "/members/")):
            assert hit["status"] == 200, hit
            assert agent in hit["agent"], hit


def test_one_login_and_one_solved_challenge_for_all_workers(example: Example) -> None:
    """Without a browser: a small solver earns the session, others crawl with it."""
    run = example.small(*MEMBERS, *NO_BROWSER)
    assert_all_is_accounted_for(run)
    assert_one_session_for_all(example, run, SOLVER)
    assert "median place in delivery" not in run.output
    wait_until_gone(run.output)


@pytest.fixture
def _browser() -> None:
    """What the browser needs: a test without it is skipped, or fails in CI."""
    missing = [
        name
        for name, found in [
            ("chromium (a package of Debian)", shutil.which("chromium")),
            ("playwright (of PyPI)", find_spec("playwright")),
        ]
        if not found
    ]
    if missing and IN_CI:
        pytest.fail(f"needs {' and '.join(missing)}")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.mark.usefixtures("_browser")
def test_what_a_browser_earned_is_used_by_two_workers(example: Example) -> None:
    """Headless Chromium fills in the form and runs the script of the challenge."""
    run = example.small(*MEMBERS, "--workers", "2")
    assert_all_is_accounted_for(run)
    assert_one_session_for_all(example, run, "Mozilla/5.0 (X11; Linux")
    assert " HeadlessChrome/" in run.output, str(run)


@pytest.mark.long
def test_the_session_outlives_the_workers(example: Example) -> None:
    """The run after one that was interrupted needs no login."""
    first = example.small(*MEMBERS, *NO_BROWSER)
    example.wait_until_half_way(first)
    first.kill()
    second = example.run(*NO_BROWSER)
    assert_all_is_accounted_for(second)
    assert RESUMED in second.output
    assert_one_session_for_all(example, second, SOLVER)


class Site(NamedTuple):
    """The members' area without HTTP, and the names of its modules."""

    area: Any
    catalog: Any
    challenge: Any
    visit: Any

    def ask(self, path: str, **visit: Any) -> Any:
        return self.area.answer(self.visit.Visit(path, **visit))

    def post(self, path: str, form: dict[str, str], **visit: Any) -> Any:
        return self.ask(path, method="POST", form=form, **visit)


@pytest.fixture
def site(modules: Any) -> Site:
    """A shop of as many products as the runs have."""
    assert modules("site")  # the example is on the path
    names = ("members", "catalog", "challenge", "visit")
    members, catalog, challenge, visit = (
        importlib.import_module(f"storefront.{name}") for name in names
    )
    goods = catalog.Catalog(PRODUCTS)
    return Site(members.MembersArea(goods), goods, challenge, visit)


def cookie(answer: Any) -> dict[str, str]:
    """The one that an answer sets."""
    [text] = answer.cookies
    name, _, value = text.partition(";")[0].partition("=")
    return {name: value}


def token(form: Any) -> str:
    return str(form.body.partition('name="csrf" value="')[2].partition('"')[0])


def test_the_login_form_goes_with_its_cookie(site: Site) -> None:
    """A token is good with the cookie of its own form only; then members are let in."""
    assert site.ask("/members/books").location == "/login"
    form, other = site.ask("/login"), site.ask("/login")
    login = {"user": "ann", "password": "open sesame", "csrf": token(form)}
    assert site.post("/login", login).status == 403
    assert site.post("/login", login, cookies=cookie(other)).status == 403
    wrong = {**login, "password": "please"}
    assert site.post("/login", wrong, cookies=cookie(form)).status == 403
    welcome = site.post("/login", login, cookies=cookie(form))
    assert (welcome.status, welcome.location) == (303, "/welcome")
    page = site.ask("/members/books", cookies=cookie(welcome))
    assert page.status == 200
    assert "/members/6" in page.body
    forged = {"member": cookie(welcome)["member"].replace("ann", "bob")}
    assert site.ask("/members/books", cookies=forged).location == "/login"


def test_clearance_is_for_one_user_agent(site: Site) -> None:
    """The same cookie with another user agent is challenged again."""
    solver = importlib.import_module("shop.solver")
    product = next(p for p in site.catalog.products() if site.catalog.is_outlet(p))
    path = site.catalog.member_url(product)
    page = site.ask(path, agent="a")
    assert page.status == solver.CHALLENGED
    text = page.body.partition('data-challenge="')[2].partition('"')[0]
    number = solver.solve(text, site.challenge.DIFFICULTY)
    right = {"challenge": text, "number": str(number)}
    wrong = {"challenge": text, "number": str(number + 1)}
    assert site.post("/challenge", wrong, agent="a").status == 403
    assert site.post("/challenge", right, agent="b").status == 403
    clearance = cookie(site.post("/challenge", right, agent="a"))
    assert site.ask(path, agent="a", cookies=clearance).status == 200
    assert site.ask(path, agent="b", cookies=clearance).status == 403
    assert site.ask("/clearance", agent="b") is None  # that is everybody's


@pytest.mark.parametrize("browser", ["", "no-such-browser"])
def test_the_solver_takes_the_place_of_a_browser(site: Site, browser: str) -> None:
    """Where there is none, or none is wanted."""
    sessions = importlib.import_module("shop.sessions")
    login = importlib.import_module("shop.settings").SHOP_LOGIN
    crawler = get_crawler(settings_dict={"SHOP_LOGIN": login, "SHOP_BROWSER": browser})
    provider = sessions.ShopSessions.from_crawler(crawler)
    assert provider.chromium is None
    assert provider.login == ("ann", "open sesame")


def posted(modules: Any, *answers: tuple[str, int]) -> Any:
    """A crawl whose site saw these."""
    hits = (modules("outcome").Hit(*hit, 0.0, "POST", "me") for hit in answers)
    return outcome(modules, [2, 1], [3, 4], hits=tuple(hits), needs_session=True)


def test_a_second_login_fails_the_example(
    modules: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """So does a second challenge; what the site refused is not counted."""
    once = (("/login", 403), ("/login", 303), ("/challenge", 200))
    assert posted(modules, *once).problems() == []
    twice = posted(modules, *once, ("/login", 303), ("/challenge", 200))
    assert twice.problems() == [
        "logins: 2, should be 1 for all workers",
        "challenges solved: 2, should be 1 for all workers",
    ]
    assert importlib.import_module("run").report(twice) == 1
    assert "challenges solved  2  as me\n" in capsys.readouterr().out
