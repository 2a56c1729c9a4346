"""When a page is over, how it ended, what belongs to it, and that no crash loses it.

Real crawls of a local site are recorded (``recorder``), without any server, by a
spider that does all that pages can do (``lifecycle_spider``). The recordings are then
cut at every point, with every request refused (``crash_model``).
"""

from __future__ import annotations

import importlib.util
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.core.scraper import Scraper
from scrapy.crawler import AsyncCrawlerRunner

from scrapy_redis_state.engine import (
    MAX_REASON,
    UnsupportedScrapy,
    _Page,
    describe,
)
from scrapy_redis_state.outcomes import Outcome
from tests.adapters import lifecycle_spider
from tests.adapters.crash_model import (
    START_UNIT,
    CrashModel,
    LostWorkError,
    Operation,
    State,
)
from tests.adapters.lifecycle_spider import EXPECTED, LifecycleSpider
from tests.adapters.recorder import OUTSIDE, START
from tests.processes import Program, Programs
from tests.site import Site

WITHOUT_REACTOR = {"TWISTED_REACTOR_ENABLED": False}
KINDS_OF_PROCESS: dict[str, dict[str, Any]] = {
    "async-process": {},
    "process": {"FORCE_CRAWLER_PROCESS": True},
    "reactorless": WITHOUT_REACTOR,
}
"""Settings under which ``scrapy`` runs crawls in different ways."""

RECORDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "reactor": ({}, {}),
    "reactorless": (WITHOUT_REACTOR, {}),
    "CloseSpider": ({}, {"stop": "close"}),
    "SIGTERM": ({}, {"stop": "sigterm"}),
    "start-twice": ({"RECORDER_START_TWICE": True}, {"only": "output-extended"}),
}
"""Settings and spider arguments of the recorded crawls."""

COMPLETE = ["reactor", "reactorless"]
STOPPED = ["CloseSpider", "SIGTERM"]


@dataclass
class Recording:
    """A running crawl, and the log of it once it has ended."""

    program: Program
    path: Path

    def log(self, status: int = 0) -> list[Operation]:
        """Wait for the end, which must have this exit status."""
        assert self.program.wait() == status, str(self.program)
        return [json.loads(line) for line in self.path.read_text().splitlines()]


class Crawls:
    """Starts crawls of the lifecycle spider, each of a site of its own."""

    def __init__(self, programs: Programs, sites: ExitStack) -> None:
        self._programs = programs
        self._sites = sites

    def start(self, settings: dict[str, Any], arguments: dict[str, Any]) -> Recording:
        if settings == WITHOUT_REACTOR:
            _require_client()
        number = len(self._programs.started)
        path = self._programs.directory / f"{number}.jsonl"
        site = self._sites.enter_context(Site())
        program = self._programs.crawl(
            lifecycle_spider.__file__,
            settings={"RECORDER_LOG": path, "LOG_LEVEL": "INFO", **settings},
            arguments={"site": site.url, **arguments},
        )
        return Recording(program, path)


def _require_client() -> None:
    """Skip where what Scrapy downloads with, without a reactor, is not installed."""
    handlers = "scrapy.core.downloader.handlers"
    aiohttp = importlib.util.find_spec(f"{handlers}._aiohttp")
    pytest.importorskip("aiohttp" if aiohttp else "httpx")


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawls]:
    """Starts crawls, which are ended with the module."""
    with ExitStack() as sites, Programs(tmp_path_factory.mktemp("crawls")) as programs:
        yield Crawls(programs, sites)


@pytest.fixture(scope="module")
def recorded(crawls: Crawls) -> Callable[[str], list[Operation]]:
    """The log of a crawl of ``RECORDED``; each is run once."""
    running: dict[str, Recording] = {}

    def log(name: str) -> list[Operation]:
        if name not in running:
            running[name] = crawls.start(*RECORDED[name])
        return running[name].log()

    return log


def of(log: list[Operation], op: str, **values: Any) -> list[Operation]:
    """Operations of a kind, with some values."""
    return [o for o in log if {"op": op, **values}.items() <= o.items()]


def names(log: list[Operation]) -> dict[int | str | None, str]:
    """The name of each id; of those that are no id, too."""
    stored = {op["id"]: op["name"] for op in of(log, "store")}
    return {None: OUTSIDE, START: START, **stored}


def outcomes(log: list[Operation]) -> dict[str, list[str]]:
    """How the pages of each name ended, in order."""
    ended = defaultdict(list)
    for op in of(log, "end"):
        ended[names(log)[op["id"]]].append(op["kind"])
    return ended


def reason(log: list[Operation], name: str) -> str:
    """Why the last page of a name ended as it did."""
    ends = [op for op in of(log, "end") if names(log)[op["id"]] == name]
    text: str = ends[-1]["reason"]
    return text


# How pages end


@pytest.mark.parametrize("crawl", COMPLETE)
def test_a_page_ends_as_what_happened_to_it(recorded, crawl):
    """Each way to end has its outcome, with and without a reactor."""
    ended = outcomes(recorded(crawl))
    assert {name: ended[name] for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("crawl", COMPLETE)
def test_an_outcome_has_a_reason(recorded, crawl):
    """An exception comes with the place where it was raised; done needs no reason."""
    log = recorded(crawl)
    failed = reason(log, "always-failing").splitlines()
    assert failed[0] == "ValueError: broken callback"
    assert any("in always_failing" in line for line in failed)
    assert reason(log, "given-up-status") == "HTTP status 503"
    assert reason(log, "request-refused").startswith("ValueError: refused\n")
    assert reason(log, "sync-generator") == ""


def test_a_callback_that_closes_the_spider_is_not_to_blame(recorded):
    """CloseSpider hands the page back; the close waits for what it yielded before."""
    log = recorded("CloseSpider")
    assert outcomes(log)["stopping"] == ["release"]
    assert reason(log, "stopping").startswith("scrapy.exceptions.CloseSpider\n")
    assert of(log, "store", name="stopping-child")
    assert of(log, "close") == [{"op": "close", "reason": "asked_to"}]


def test_a_running_page_ends_after_sigterm(recorded):
    """What a page does while the engine closes still belongs to it, and is recorded."""
    log = recorded("SIGTERM")
    assert outcomes(log)["stopping"] == ["done"]
    assert of(log, "store", name="stopping-late-child", maker="stopping")
    assert of(log, "close") == [{"op": "close", "reason": "shutdown"}]


def test_the_worst_outcome_of_a_page_counts():
    """Release over bury over fail over done; among equals the first."""
    kinds: list[Any] = ["fail", "bury", "fail", "release", "bury", "release"]
    page = _Page(object(), scrapy.Request("data:,"))
    noted = []
    for number, kind in enumerate(kinds):
        page.note(Outcome(kind, str(number)))
        noted.append(page.outcome.reason)
    assert noted == ["0", "1", "1", "3", "3", "3"]


def test_a_reason_is_short_and_can_be_encoded():
    """However long or odd the text of an exception is."""
    with pytest.raises(ValueError) as raised:
        raise ValueError("\ud800" + "x" * 10_000)
    text = describe(raised.value)
    assert len(text) <= MAX_REASON
    assert text.startswith("ValueError: ?xxx")
    assert "test_a_reason_is_short" in text
    assert describe(ValueError("")) == "ValueError"
    text.encode()


# When pages end, and what belongs to them


@pytest.mark.parametrize("crawl", [*COMPLETE, *STOPPED])
def test_a_page_ends_after_all_that_it_makes(recorded, crawl):
    """Its requests, its items and the request that replaces it come before its end."""
    log = recorded(crawl)
    running = Counter([START])
    for op in log:
        match op["op"]:
            case "take":
                running[op["name"]] += 1
            case "store" | "item" if op["maker"] != OUTSIDE:
                assert running[op["maker"]], op
            case "end":
                running[names(log)[op["id"]]] -= 1
            case "seeded":
                running[START] -= 1
    assert not +running - Counter([START])


@pytest.mark.parametrize("crawl", [*COMPLETE, *STOPPED])
def test_a_request_is_known_to_belong_to_the_page_that_made_it(recorded, crawl):
    """Whichever callback, errback, middleware or pipeline made it, and however."""
    log = recorded(crawl)
    known = names(log)
    stores = [op for op in of(log, "store") if op["maker"] != OUTSIDE]
    wrong = [op for op in stores if known[op["page"]] != op["maker"]]
    assert wrong == []
    assert len(stores) > (100 if crawl in COMPLETE else 20)


@pytest.mark.parametrize("crawl", COMPLETE)
@pytest.mark.parametrize("name", ["idle", "timer", "after-left-behind"])
def test_a_request_of_nobody_belongs_to_no_page(recorded, crawl, name):
    """Those of signal handlers and timers, and of a task that outlived its page."""
    (store,) = of(recorded(crawl), "store", name=name)
    assert store["page"] is None


def test_start_can_be_run_again(recorded):
    """All of it, through all spider middlewares but the one that asks for it."""
    log = recorded("start-twice")
    made = [op["name"] for op in of(log, "store", maker=START, page=START)]
    once = ["output-extended", "common"]
    assert sorted(made) == sorted([*once, *once, *["of-item-of-start"] * 2])
    assert len(of(log, "item", maker=START)) == 4
    assert len(of(log, "seeded")) == 1


# Crashes


@pytest.mark.parametrize("crawl", RECORDED)
def test_nothing_is_lost_wherever_the_crawl_is_cut(recorded, crawl):
    """After every prefix of the log, whichever requests the server refused."""
    log = recorded(crawl)
    assert CrashModel(log).check() > len(log) * len(of(log, "store")) / 2


@pytest.mark.parametrize("crawl", COMPLETE)
def test_a_complete_crawl_owes_nothing(recorded, crawl):
    """Every request that was stored is acked or buried, but those that failed twice."""
    model = CrashModel(recorded(crawl))
    state = play(model)
    failed = [name for name, kinds in EXPECTED.items() if kinds[-1] == "fail"]
    owed = [name for unit, name in model.names.items() if unit & state.owed]
    assert sorted(owed) == sorted(failed)


@pytest.mark.parametrize("crawl", STOPPED)
def test_a_stopped_crawl_owes_the_rest(recorded, crawl):
    """What was not taken, and a start() that was not done."""
    state = play(CrashModel(recorded(crawl)))
    assert state.owed & START_UNIT
    assert state.owed & ~START_UNIT


def play(model: CrashModel) -> State:
    """The state after the whole log, with nothing refused."""
    state = State()
    for at in range(len(model.log)):
        model.play(state, at)
    return state


def acked_too_early(log: list[Operation]) -> list[Operation]:
    """Each page is acked just before the last request it makes."""
    mutant = list(log)
    for end in of(log, "end", kind="done"):
        stores = of(log, "store", page=end["id"], duplicate=False)
        if stores:
            mutant.remove(end)
            mutant.insert(mutant.index(stores[-1]), end)
    return mutant


def seeded_too_early(log: list[Operation]) -> list[Operation]:
    """Seeding is reported just before the last start request."""
    (seeded,) = of(log, "seeded")
    mutant = [op for op in log if op != seeded]
    last = of(log, "store", page=START, duplicate=False)[-1]
    mutant.insert(mutant.index(last), seeded)
    return mutant


def pages_unknown(log: list[Operation]) -> list[Operation]:
    """The scheduler does not know which page a request belongs to."""
    return [{**op, "page": None} if op["op"] == "store" else op for op in log]


def pages_mistaken(log: list[Operation]) -> list[Operation]:
    """The scheduler takes the page that began last for that of a request."""
    mutant: list[Operation] = []
    last = START
    for op in log:
        if op["op"] == "take":
            last = op["id"]
        mutant.append({**op, "page": last} if op["op"] == "store" else op)
    return mutant


@pytest.mark.parametrize(
    "mutate", [acked_too_early, seeded_too_early, pages_unknown, pages_mistaken]
)
def test_the_crash_model_catches_a_scheduler_that_is_wrong(recorded, mutate):
    """A log as a careless scheduler would write it loses requests."""
    with pytest.raises(LostWorkError):
        CrashModel(mutate(recorded("reactor"))).check()


def test_burying_a_page_must_wait_for_its_refused_requests(recorded):
    """As acking does: a page may make requests and be given up all the same."""
    careless = CrashModel(recorded("reactor"), withheld_ends=("done",))
    with pytest.raises(LostWorkError, match="instead"):
        careless.check()


# The end of a crawl


@pytest.mark.parametrize("process", KINDS_OF_PROCESS)
def test_a_failed_crawl_exits_with_status_1_after_an_ordinary_close(crawls, process):
    """However it runs; also when it is SIGTERM that closes it."""
    settings = KINDS_OF_PROCESS[process]
    failed = crawls.start(settings, {"stop": "fail"})
    terminated = crawls.start(settings, {"stop": "fail-sigterm"})
    assert of(failed.log(status=1), "close", reason="server_gone")
    assert of(terminated.log(status=1), "close", reason="shutdown")
    for crawl in (failed, terminated):
        assert outcomes(crawl.log(status=1))["stopping"] == ["done"]
        assert "Spider closed" in crawl.program.output


@pytest.fixture
def crawl_here(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs a crawl of the lifecycle spider in this process: a coroutine function."""
    with Site() as site:

        async def crawl(**arguments: Any) -> None:
            runner = AsyncCrawlerRunner({"RECORDER_LOG": str(tmp_path / "log")})
            await runner.crawl(LifecycleSpider, site=site.url, **arguments)

        yield crawl


async def test_a_failed_crawl_raises_its_error(crawl_here, caplog):
    """A program that runs crawlers by itself gets the error; the close is ordinary."""
    caplog.set_level(logging.INFO)
    with pytest.raises(OSError, match="the server is gone"):
        await crawl_here(stop="fail")
    assert "Spider closed (server_gone)" in caplog.text


@pytest.mark.parametrize(
    "missing", ["_scrape", "handle_spider_error", "_process_spidermw_output_async"]
)
async def test_a_scrapy_that_lacks_something_is_refused(
    crawl_here, monkeypatch, missing
):
    """The crawl ends before its first page, naming the version and what is missing."""
    monkeypatch.delattr(Scraper, missing)
    with pytest.raises(UnsupportedScrapy) as refused:
        await crawl_here()
    assert f"Scrapy {scrapy.__version__} " in str(refused.value)
    assert f"ExecutionEngine.scraper.{missing} is missing" in str(refused.value)


async def test_a_scrapy_that_works_otherwise_is_refused(crawl_here, monkeypatch):
    """A method that is there, but of another kind, is no better."""
    monkeypatch.setattr(Scraper, "call_spider_async", lambda *_: None)
    with pytest.raises(UnsupportedScrapy, match="call_spider_async is unexpected"):
        await crawl_here()
