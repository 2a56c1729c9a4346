"""The examples of the page about sessions, as they stand there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.misc import load_object

from scrapy_redis_state import CookiesMiddleware
from scrapy_redis_state.store import CrawlState
from tests.processes import REPOSITORY, Programs
from tests.servers import Server
from tests.store.session_store import BROWSER
from tests.test_documentation import blocks, command, items

PAGE = REPOSITORY / "docs" / "howto" / "sessions.rst"


@pytest.mark.one_server
def test_three_workers_log_in_once(programs: Programs, tmp_path: Path) -> None:
    """Site, spider and provider, on the server that comes with the package."""
    page = blocks(PAGE)
    for name in ("website.py", "members.py"):
        (tmp_path / name).write_text(page[name])
    assert command(page["site"]) == "python website.py"
    site = programs.python("website.py", cwd=tmp_path)
    setting, _, run = command(page["worker"]).partition(" ")
    assert run == "scrapy runspider members.py"
    name, _, password = setting.partition("=")
    workers = [
        programs.scrapy("runspider", "members.py", cwd=tmp_path, env={name: password})
        for _ in range(3)
    ]
    for worker in workers:
        worker.wait_for_success()
    assert site.output.count("logged in") == site.output.count("guest logged in") == 1
    titles = {json.loads(line)["title"] for line in items(tmp_path)}
    assert titles == {f"Page {number}" for number in range(1, 151)}
    assert len(list(tmp_path.glob("items-*.jsonl"))) == 3


@pytest.mark.long
@pytest.mark.one_server
def test_two_accounts_log_in_once_each(programs: Programs, tmp_path: Path) -> None:
    """Site and provider are those of the first example."""
    page = blocks(PAGE)
    for name in ("website.py", "members.py", "accounts.py"):
        (tmp_path / name).write_text(page[name])
    site = programs.python("website.py", cwd=tmp_path)
    setting, _, run = command(page["accounts"]).partition(" ")
    assert run == "scrapy runspider accounts.py"
    env = dict([setting.split("=")])
    workers = [
        programs.scrapy("runspider", "accounts.py", cwd=tmp_path, env=env)
        for _ in range(2)
    ]
    for worker in workers:
        worker.wait_for_success()
    assert [site.output.count(f"{user} logged in") for user in ("ann", "bob")] == [1, 1]
    found = [json.loads(line) for line in items(tmp_path)]
    assert {(one["user"], one["wanted"]) for one in found} == {
        ("ann", "ann"),
        ("bob", "bob"),
    }


def test_the_middleware_can_stand_alone() -> None:
    """The settings of the page name ours, in the place of Scrapy's."""
    names: dict[str, Any] = {}
    exec(blocks(PAGE)["cookies alone"], names)  # noqa: S102 - it is ours
    stock, ours = names["DOWNLOADER_MIDDLEWARES"]
    assert names["DOWNLOADER_MIDDLEWARES"][stock] is None
    assert load_object(ours) is CookiesMiddleware
    assert load_object(stock) in CookiesMiddleware.__mro__


@pytest.mark.one_server
def test_a_session_of_a_browser_is_published(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """With what it is bound to; of a file that Playwright writes."""
    state = {"cookies": [BROWSER], "origins": []}
    (tmp_path / "state.json").write_text(json.dumps(state))
    text = blocks(PAGE)["publish.py"].replace("redis://localhost:6379/0", server.url)
    own = f'crawl="any", prefix="{crawl_name}"'
    (tmp_path / "publish.py").write_text(text.replace('crawl="any"', own))
    program = programs.python("publish.py", cwd=tmp_path)
    program.wait_for_success()
    assert program.output.split() == ["['sid']"]
    with CrawlState.connect(server.url, crawl="any", prefix=crawl_name) as crawl:
        session = crawl.sessions.load("shop.example", "ann").session
    assert session.identity.proxy == "paris"
    assert session.identity.headers == {"Accept-Language": "fr"}
