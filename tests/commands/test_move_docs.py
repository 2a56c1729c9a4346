"""The examples of the page about moving crawls, as they stand there."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands
from tests.commands.test_docs import examples, fits, run
from tests.processes import REPOSITORY, Programs
from tests.servers import Server
from tests.store.clients import StartServer
from tests.test_documentation import blocks

PAGE = REPOSITORY / "docs" / "howto" / "move.rst"
URLS = [f"https://shop.example/{number}" for number in range(3)]


def fill(state: CrawlState) -> None:
    state.push_many(URLS)
    (leased,) = state.lease()
    state.bury(leased, "timeout")


@pytest.mark.one_server
@pytest.mark.long
def test_a_crawl_is_moved_as_the_page_says(
    commands: Commands, server: Server, fresh_server: StartServer
) -> None:
    """In a project of one spider."""
    new = fresh_server()
    env = commands.project_env(TEST_SPIDERS="tests.commands.project.alone")
    crawl = f"{commands.crawl}:offers"
    with CrawlState.connect(server.url, crawl=crawl) as state:
        fill(state)
    found = examples(PAGE)
    assert len(found) == 6
    for command, output in found:
        there = command.replace("redis://new.example:6379/0", new.url)
        done = run(commands, there, env)
        shown = output.replace("shop:offers", crawl)
        assert fits(shown, done.output), f"{command}:\n{done.output}"
    assert server.client().keys() == []
    with CrawlState.connect(new.url, crawl=crawl) as state:
        assert [one.url for one in state.lease(9)] == URLS[1:]


@pytest.mark.one_server
def test_a_script_keeps_a_copy(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """And a crawl is made of it."""
    with CrawlState.connect(server.url, crawl=crawl_name) as state:
        fill(state)
        state.close()
        text = blocks(PAGE)["backup.py"]
        text = text.replace("redis://localhost:6379/0", server.url)
        (tmp_path / "backup.py").write_text(text.replace("shop:offers", crawl_name))
        script = programs.python("backup.py", cwd=tmp_path)
        script.wait_for_success()
        assert script.output == "{'seen': 3, 'pending': 2, 'dead': 1}\n"
        assert state.delete()
        today = date.today()  # noqa: DTZ011 - as on the page
        state.import_(tmp_path / f"offers-{today}.jsonl.gz")
        assert state.size() == 2
