"""Which crawl is meant, inside and outside of a project; and what goes wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands, refusal
from tests.processes import REPOSITORY
from tests.servers import Server

pytestmark = pytest.mark.one_server

URL = "http://shop.example/"


def push(server: Server, crawl: str, prefix: str = "") -> None:
    with CrawlState.connect(server.url, crawl=crawl, prefix=prefix) as state:
        assert state.push(URL)


def test_a_crawl_may_be_named_by_options(commands: Commands, server: Server) -> None:
    """Before the verb and after it, and by settings as well."""
    push(server, commands.crawl)
    options = ["--url", commands.url, "--crawl", commands.crawl]
    settings = ["-s", f"REDIS_STATE_URL={commands.url}"]
    settings += ["-s", f"REDIS_STATE_CRAWL_ID={commands.crawl}"]
    for words in (
        [*options, "status", "--json"],
        ["status", "--json", *options],
        [*settings, "status", "--json"],
        [*settings[:2], "status", "--json", *settings[2:]],
    ):
        assert commands.run(*words).json["pending"] == 1, words


def test_a_prefix_may_be_named(commands: Commands, server: Server) -> None:
    """Of a crawl with another there is none."""
    prefix = f"{commands.crawl}:"
    push(server, "a", prefix)
    words = ["status", "--url", commands.url, "--crawl", "a"]
    assert commands.run(*words, "--prefix", prefix, "--json").json["prefix"] == prefix
    assert refusal(commands.run(*words)).startswith("There is no crawl 'a' on unix://")


def test_in_a_project_a_spider_is_enough(commands: Commands, server: Server) -> None:
    """Its own settings count; a crawl id does without a spider."""
    bot = commands.crawl
    push(server, f"{bot}:pages")
    status = commands.project("status", "--spider", "pages", "--json").json
    assert (status["crawl"], status["seen_set"]) == (f"{bot}:pages", "exact")
    assert commands.project("push", URL, "--spider", "own").status == 0
    status = commands.project("status", "--spider", "own", "--json").json
    assert (status["crawl"], status["seen_set"]) == (f"{bot}:by-hand", "packed:10000")
    status = commands.project("status", "--crawl", f"{bot}:pages", "--json").json
    assert status["pending"] == 1


def test_the_only_spider_of_a_project_need_not_be_named(
    commands: Commands, server: Server
) -> None:
    """Nothing else can be meant."""
    push(server, f"{commands.crawl}:offers")
    only = {"TEST_SPIDERS": "tests.commands.project.alone"}
    status = commands.project("status", "--json", **only).json
    assert status["crawl"] == f"{commands.crawl}:offers"


def test_who_names_no_crawl_is_asked(commands: Commands) -> None:
    """With what there is to choose from."""
    text = refusal(commands.project("status"), 2)
    assert text == (
        "which crawl? Give --crawl ID, or --spider NAME (one of makes, own, pages)"
    )
    text = refusal(commands.project("status", "--spider", "nope"))
    assert text == "There is no spider 'nope' here: use one of makes, own, pages."
    text = refusal(commands.run("status", "--url", commands.url), 2)
    assert text == "which crawl? This is no project: give --crawl ID, and --url URL"
    text = refusal(commands.run("status", "--url", commands.url, "--spider", "a"))
    assert text == "There is no spider 'a' here: run it in a project that has it."


def test_pages_are_the_same_by_the_rules_of_the_spider(commands: Commands) -> None:
    """Its REDIS_STATE_STRIP_QUERY_PARAMS."""
    urls = [f"{URL}?ref=1", f"{URL}?ref=2"]
    done = commands.project("push", *urls, "--spider", "own")
    assert done.output == "1 pushed, 1 known already, 0 bad\n"
    done = commands.project("forget", f"{URL}?ref=3", "--spider", "own")
    assert done.output == "1 page forgotten\n"
    done = commands.project("push", *urls, "--spider", "pages")
    assert done.output == "2 pushed, 0 known already, 0 bad\n"


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--url", "redis://u:secret@127.0.0.1:1", "--crawl", "a", "status"], 1,
         "redis://***@127.0.0.1:1: no usable answer"),
        (["--url", "redis://u:secret@127.0.0.1:1", "session", "list"], 1,
         "redis://***@127.0.0.1:1: no usable answer"),
        (["--url", "http://u:secret@a", "--crawl", "a", "status"], 1,
         "REDIS_STATE_URL = 'http://***': has no known scheme"),
        (["--crawl", "a{", "status"], 1, "REDIS_STATE_CRAWL_ID = 'a{'"),
        (["-s", "REDIS_STATE_COLOUR=1", "--crawl", "a", "status"], 1,
         "REDIS_STATE_COLOUR is not a setting"),
        (["prioritize", "--match", "(", "--by", "1"], 2, "'(' is no regex"),
        (["peek", "-3"], 2, "'-3' is not a whole number from 1 on"),
        (["delete", "--older-than", "0"], 2, "is not a whole number from 1 on"),
        (["session"], 2, "required"),
        (["push", "--url", "redis://127.0.0.1:1", "--crawl", "a"], 1, "127.0.0.1:1: "),
        (["--url", "redis://127.0.0.1:1", "--crawl", "a", "peek"], 1,
         "start the server, or correct REDIS_STATE_URL (--url)"),
        (["push", "--crawl", "a", "--file", "/nonexistent"], 1,
         "/nonexistent: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    installed, tmp_path, words: list[str], status: int, text: str
) -> None:
    """On stderr, without a traceback and without the password."""
    commands = Commands(installed, "", "", tmp_path)
    done = commands.run(*words, text="http://a.example/\n")
    line = refusal(done, status)
    assert text in line
    assert "secret" not in line


def test_a_verb_that_is_none_is_refused(installed, tmp_path) -> None:
    """With those that there are; so are words that no verb knows."""
    commands = Commands(installed, "", "", tmp_path)
    done = commands.run("explode")
    assert done.status == 2
    assert "invalid choice: 'explode'" in done.errors
    done = commands.run("status", "--colour")
    assert (done.status, "unrecognized arguments" in done.errors) == (2, True)


def test_every_verb_tells_what_it_takes(installed, tmp_path) -> None:
    """The command tells its verbs, and Scrapy the command."""
    commands = Commands(installed, "", "", tmp_path)
    done = commands.run("--help")
    assert done.status == 0
    for verb in ("status", "dead", "session", "push", "doctor"):
        assert f"    {verb}" in done.output
    assert "--reason TEXT" in commands.run("dead", "list", "--help").output
    listed = commands.scrapy().output
    assert "redis-state   Look at crawls that are shared in Redis" in listed


def test_nothing_heavy_is_loaded_before_it_is_wanted() -> None:
    """All commands of Scrapy load the class, and only that."""
    code = (
        "import sys, scrapy.cmdline, scrapy.commands; before = set(sys.modules)\n"
        "from scrapy_redis_state.commands import RedisStateCommand\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == [
        "scrapy_redis_state",
        "scrapy_redis_state.commands",
        "scrapy_redis_state.commands.command",
    ]


def test_whoever_reads_no_further_ends_it(commands: Commands, server: Server) -> None:
    """As with any program in a pipe: no traceback."""
    with CrawlState.connect(server.url, crawl=commands.crawl) as state:
        state.push_many(f"{URL}{'x' * 100}/{n}" for n in range(3000))
    command = f"{sys.executable} -m scrapy redis-state peek 3000 --url {commands.url}"
    done = commands.shell(f"{command} --crawl {commands.crawl} | head -n 1")
    assert (done.status, done.errors) == (0, "")
    assert done.lines == ["priority  deliveries  url"]
