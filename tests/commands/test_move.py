"""Whole crawls in files: ``export`` and ``import``."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands, refusal
from tests.crawl.crawls import Crawls, close_reason, finish
from tests.crawl.shop import Shop
from tests.processes import Programs, wait_until
from tests.servers import Server
from tests.store.clients import StartServer

pytestmark = pytest.mark.one_server

URLS = [f"http://shop.example/{number}" for number in range(3000)]


def test_a_crawl_is_copied_to_another_server(
    commands: Commands, state: CrawlState, fresh_server: StartServer
) -> None:
    """Under another id; a file that only its owner can read."""
    state.push_many(URLS[:3])
    (leased,) = state.lease()
    assert refusal(commands("export", "crawl.gz")).endswith(
        "with --force the copy lacks what they store and move meanwhile."
    )
    state.bury(leased, "gone")
    state.close()
    done = commands("export", "crawl.gz")
    text = f"exported '{commands.crawl}' to crawl.gz: 2 pending, 1 dead, 3 seen\n"
    assert (done.output, done.errors) == (text, "")
    mode = (commands.directory / "crawl.gz").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    other = fresh_server()
    place = ["--url", other.url, "--crawl", "copy"]
    done = commands.run("import", *place, "crawl.gz", "--json")
    assert done.json == {
        "crawl": "copy",
        "exported_crawl": commands.crawl,
        "state": "running",
        "counts": {"pending": 2, "dead": 1, "seen": 3},
        "notes": [],
    }
    with CrawlState.connect(other.url, crawl="copy") as copy:
        assert [one.url for one in copy.peek()] == URLS[1:3]


def test_a_pipe_will_do(
    commands: Commands, state: CrawlState, fresh_server: StartServer
) -> None:
    """Nothing else is written to the output."""
    state.push_many(URLS)
    scrapy = f"{sys.executable} -m scrapy redis-state"
    other = fresh_server()
    done = commands.shell(
        f"{scrapy} export - --url {commands.url} --crawl {commands.crawl}"
        f" | {scrapy} import - --url {other.url} --crawl copy"
    )
    assert done.status == 0, done
    assert (
        done.output == "imported 'copy' (running): 3,000 pending, 0 dead, 3,000 seen\n"
    )
    assert done.errors == (
        f"exported '{commands.crawl}': 3,000 pending, 0 dead, 3,000 seen\n"
    )
    with CrawlState.connect(other.url, crawl="copy") as copy:
        assert [one.url for one in copy.peek(3000)] == URLS
        assert copy.fsck() == []


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["export", "a.gz"], 1, "'scrapy redis-state crawls' lists those"),
        (["import"], 2, "what? Give the FILE of an export; - is the input"),
        (["import", "-"], 1, "the input is not an exported crawl."),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told(
    commands: Commands, words: list[str], status: int, text: str
) -> None:
    """In one line; there is no file then."""
    assert text in refusal(commands(*words), status)
    assert [*commands.directory.glob("*.gz*")] == []


def test_an_import_that_is_killed_leaves_nothing_that_anybody_could_use(
    commands: Commands, state: CrawlState, programs: Programs, crawls: Crawls
) -> None:
    """Workers refuse it with the remedy, and the remedy works."""
    crawl = f"{commands.crawl}:pages"
    state.push_many(URLS)
    file = commands.directory / "crawl.jsonl"
    state.export(file)
    pipe = commands.directory / "pipe"
    os.mkfifo(pipe)
    place = ["--url", commands.url, "--crawl", crawl]
    program = programs.scrapy(
        "redis-state", "import", pipe, *place, env={"PYTHONPATH": commands.path}
    )
    with pipe.open("wb") as writing, crawls.state(crawl) as copy:
        content = file.read_bytes()
        writing.write(content[: len(content) // 2])
        writing.flush()
        wait_until(lambda: copy.status().summary.seen > 0)
        program.kill()
        assert copy.status().summary.status == "importing"
    worker = crawls.programs.crawl(
        "pages", arguments={"site": "http://a"}, env=commands.project_env()
    )
    assert worker.wait() != 0
    assert "an import of it broke off" in worker.output
    assert "remove what there is with 'scrapy redis-state delete'" in worker.output
    assert commands.run("delete", *place).status == 0
    with crawls.state(crawl) as copy:
        copy.import_(file)
        assert copy.size() == len(URLS)
        assert copy.fsck() == []


def test_a_half_done_crawl_goes_on_elsewhere(
    commands: Commands, crawls: Crawls, server: Server, fresh_server: StartServer
) -> None:
    """On the other kind of server, under other names: nothing lost, nothing twice."""
    old = fresh_server({"redis": "valkey", "valkey": "redis"}[server.kind])
    crawl = f"{crawls.bot}:offers"
    there = {"REDIS_STATE_KEY_PREFIX": "moved:", "REDIS_STATE_CRAWL_ID": crawl}
    here = {"REDIS_STATE_URL": old.url, "CLOSESPIDER_PAGECOUNT": 15}
    with Shop(60) as shop:
        first = crawls.start("shop", site=shop.url, settings=here)
        first.wait_for_success()
        assert close_reason(first) == "closespider_pagecount"
        begun = ["--url", old.url, "--crawl", f"{crawls.bot}:shop"]
        assert commands.run("export", *begun, "crawl.gz").status == 0
        place = ["--url", server.url, "--crawl", crawl, "--prefix", "moved:"]
        done = commands.run("import", *place, "crawl.gz")
        assert done.status == 0, done
        workers = crawls.start_together(2, "shop", shop, settings=there)
        finish(*workers)
        assert crawls.values("product") == dict.fromkeys(shop.products, 1)
        assert set(shop.visits.values()) == {1}
    assert "generation 1 (resumed: " in workers[0].output + workers[1].output
    with crawls.state(crawl, "moved:") as state:
        assert state.status().summary.status == "finished"
        assert state.fsck() == []
