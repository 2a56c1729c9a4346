"""The examples of the reference, in their order, as they stand on the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scrapy_redis_state.commands.verbs import ADD_VERBS
from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands, Done
from tests.processes import REPOSITORY
from tests.servers import Server
from tests.test_documentation import blocks

OLD_QUEUE = "offers:requests"
"""What scrapy-redis calls the queue of that spider."""

PAGE = REPOSITORY / "docs" / "reference" / "commands.rst"
GUIDES = REPOSITORY / "docs" / "howto"


def examples(page: Path = PAGE) -> list[tuple[str, str]]:
    """Commands, each with the output that the page shows."""
    found = []
    for body in blocks(page).values():
        for example in re.split(r"(?m)^\$ ", body)[1:]:
            command, _, output = example.partition("\n")
            found.append((command, output.strip()))
    return found


def fits(shown: str, output: str) -> bool:
    """Whether an output is as shown, where ``...`` is anything."""
    pattern = ".*".join(map(re.escape, shown.split("...")))
    return not shown or re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def prepare(state: CrawlState) -> None:
    """Two requests that wait, and two that were given up."""
    state.push_many(f"https://shop.example/p/{number}" for number in range(2))
    for leased, reason in zip(state.lease(2), ["status 503", "timeout"], strict=True):
        state.bury(leased, reason)
    state.push_many(["https://shop.example/a", "https://shop.example/b"], 7)


def run(commands: Commands, command: str, env: Mapping[str, str]) -> Done:
    """A command of a page, which must do what it is to without a complaint."""
    scrapy = f"{sys.executable} -m scrapy redis-state"
    done = commands.shell(command.replace("scrapy redis-state", scrapy), env=env)
    assert (done.status, done.errors) == (0, ""), command
    return done


@pytest.mark.one_server
def test_the_examples_do_what_the_page_says(commands: Commands, server: Server) -> None:
    """In a project of one spider."""
    (commands.directory / "urls.txt").write_text("https://shop.example/3\n")
    (commands.directory / "requests.jsonl").write_text('"https://shop.example/4"\n')
    (commands.directory / "cookies.txt").write_text(
        ".shop.example\tTRUE\t/\tFALSE\t0\tsid\tsecret\n"
    )
    env = commands.project_env(TEST_SPIDERS="tests.commands.project.alone")
    crawl = f"{commands.crawl}:offers"
    with CrawlState.connect(server.url, crawl=crawl) as state:
        prepare(state)
    server.client().lpush(OLD_QUEUE, '{"url": "https://shop.example/old"}')
    for command, output in examples():
        done = run(commands, command, env)
        shown = output.replace("shop:offers", crawl)
        assert fits(shown, done.output), f"{command}:\n{done.output}"
    # What is left of a session that was invalidated, and what an import left alone.
    client = server.client()
    assert client.delete("sess:shop.example", OLD_QUEUE) == 2


@pytest.mark.one_server
def test_the_commands_of_the_guides_run(commands: Commands, server: Server) -> None:
    """One after another, on a crawl with something in its queue."""
    env = commands.project_env(TEST_SPIDERS="tests.commands.project.alone")
    with CrawlState.connect(server.url, crawl=f"{commands.crawl}:offers") as state:
        state.push("https://shop.example/p/7")
    pages = [GUIDES / f"{name}.rst" for name in ("priorities", "recrawl", "resume")]
    text = "".join(page.read_text() for page in pages)
    lines = re.findall(r"(?m)^ +\$ (scrapy redis-state .+)$", text)
    assert len(lines) == 5
    for line in lines:
        run(commands, line, env)


def test_every_verb_has_an_example() -> None:
    """And each stands under its name."""
    page = PAGE.read_text()
    commands = " ".join(command for command, _ in examples())
    modules = [add.__module__.rpartition(".")[2] for add in ADD_VERBS]
    verbs = [module.removesuffix("_") for module in modules]  # import_
    for verb in [*verbs, "resume"]:
        assert f"redis-state {verb}" in commands, verb
        assert f"``{verb}``" in page, verb
