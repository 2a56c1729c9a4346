"""Commands of Scrapy that take no part in a crawl."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scrapy_redis_state.startup.invocation import NOT_SHARED, scrapy_command
from tests.everyday.crawls import EverydayCrawls, GatedSite
from tests.everyday.test_feeds import WITHOUT_ADDON

AWAY = "redis://127.0.0.1:1/0"


def commands(site: str) -> dict[str, tuple[str, list[str]]]:
    """Each with what it prints when all is well, and its arguments."""
    show = f"print('got', response.text, '{site}')"
    return {
        "shell": ("got <p>visit", [f"{site}/shell", "-c", show]),
        "fetch": ("</p>", [f"{site}/fetch"]),
        "view": ("browser got file://", [f"{site}/view"]),
        "parse": (
            "[{'page': '/parse'}]",
            [f"{site}/parse", "--spider", "contract", "--nocolour"],
        ),
        "check": ("Ran 2 contracts", ["contract"]),
        "bench": (
            "Spider closed (closespider_timeout)",
            ["-s", "CLOSESPIDER_TIMEOUT=1"],
        ),
        "list": ("closing\ncontract\ndirectory", []),
        "version": ("Scrapy", []),
        "settings": ("tests-of-everyday", ["--get", "BOT_NAME"]),
    }


CRAWLING = ["shell", "fetch", "parse", "check"]
"""Those that download with the settings of the project."""


@pytest.mark.one_server
@pytest.mark.parametrize("how", ["away", "there", "away-by-hand"])
def test_commands_need_no_server_and_join_no_crawl(
    crawls: EverydayCrawls, site: GatedSite, tmp_path: Path, how: str
) -> None:
    """They do as they always did, whether Redis is there or not."""
    settings: dict[str, object] = {
        "REDIS_STATE_URL": crawls.server.url if how == "there" else AWAY,
        "BOT_NAME": "tests-of-everyday",
        "FEEDS": '{"%(redis_state_worker)s.jl": {"format": "jsonlines"}}',
        "RECORDS": tmp_path,
    }
    if how == "away-by-hand":
        settings |= WITHOUT_ADDON
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho browser got "$1"\n')
    browser.chmod(0o755)
    env = crawls.project | {"SITE": site.url, "BROWSER": f"{browser} %s"}
    options = [x for pair in settings.items() for x in ("-s", "{}={}".format(*pair))]
    wanted = commands(site.url)
    started = {}
    for verb in wanted if how == "away" else CRAWLING:
        expected, arguments = wanted[verb]
        started[expected] = crawls.programs.scrapy(
            verb, *options, *arguments, env=env, name=verb
        )
    for expected, program in started.items():
        program.wait_for_success()
        assert expected in program.output, str(program)
        assert "redis_unavailable" not in program.output
        assert "ERROR" not in program.output, str(program)
    assert crawls.client.dbsize() == 0


PYTHON = [sys.executable]


@pytest.mark.parametrize(
    "program",
    [
        ["/usr/bin/scrapy"],
        ["scrapy"],
        [r"C:\Python\Scripts\scrapy.exe"]
        if sys.platform == "win32"
        else ["scrapy.exe"],
        ["-m", "scrapy"],
        ["-Im", "scrapy"],
        ["-X", "dev", "-m", "scrapy.cmdline"],
        ["/venv/lib/site-packages/scrapy/__main__.py"],
        ["-m", "pdb", "-m", "scrapy"],
        ["-m", "coverage", "run", "/venv/bin/scrapy"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("command", ["shell", "crawl"])
def test_the_command_is_found_however_scrapy_is_run(
    program: list[str], command: str
) -> None:
    """Also with options of its own before it, and under a debugger."""
    argv = [*PYTHON, *program, "--nolog", command, "scrapy"]
    assert scrapy_command(argv) == command
    assert (command in NOT_SHARED) == (command == "shell")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["run.py"],
        ["run.py", "scrapy", "check"],
        ["run.py", "--bot", "scrapy", "--mode", "parse"],
        ["run.py", "/data/scrapy", "list"],
        ["-m", "runner", "scrapy", "view"],
        ["-m", "scrapyd.runner", "list"],
        ["-c", "import scrapy", "shell"],
    ],
    ids=" ".join,
)
def test_an_argument_of_another_program_is_no_command(argv: list[str]) -> None:
    """A crawl never runs unshared because something of it is called scrapy."""
    assert scrapy_command([*PYTHON, *argv]) is None
