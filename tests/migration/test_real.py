"""Crawls that scrapy-redis itself began, killed half-way, are finished by ours."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request

from scrapy_redis_state.migration import ScrapyRedisFingerprinter
from tests.crawl.crawls import finish
from tests.migration.old_project import write_project
from tests.processes import Program, wait_until
from tests.servers import Server
from tests.site import Site

WANTED = "SCRAPY_REDIS_WANTED"
"""Set where scrapy-redis has to be there (``tox run -e migrate``)."""

if importlib.util.find_spec("scrapy_redis") is None:
    if os.environ.get(WANTED):
        raise ImportError(f"scrapy-redis is not installed, and {WANTED} is set")
    pytest.skip(
        "scrapy-redis is not installed: tox run -e migrate", allow_module_level=True
    )

PAGES = 150
CONCURRENCY = 4
"""As in the project."""


class Web(Site):
    """Pages that link to four others each, in loops."""

    def body(self, path: str) -> str:
        number = int(path.strip("/") or 0) if path.strip("/").isdigit() else 0
        targets = [2 * number + 1, 2 * number + 2, number * 7 + 3, number - 1]
        links = (f'<a href="/{target % PAGES}?delay=0.02">x</a>' for target in targets)
        return "".join(links)

    @property
    def pages(self) -> Counter[str]:
        """Visits of those that are linked to."""
        return Counter({p: n for p, n in self.visits.items() if p[1:].isdigit()})


class Move(NamedTuple):
    """A project before and after, on one server."""

    server: Server
    old: Path
    new: Path
    programs: Any
    commands: Any

    def start(self, project: Path, spider: str, **arguments: str) -> Program:
        """Start a worker, or a crawler of scrapy-redis."""
        program: Program = self.programs.crawl(spider, arguments=arguments, cwd=project)
        return program

    def bring(self, spider: str) -> list[str]:
        """Import the old crawl; what the command says."""
        place = {"PYTHONPATH": os.pathsep.join([self.commands.path, str(self.new)])}
        place["SCRAPY_SETTINGS_MODULE"] = "settings"
        verb = ["import", "--from-scrapy-redis", "--spider", spider, "--unpickle"]
        done = self.commands.run(*verb, env=place)
        assert done.status == 0, done
        lines: list[str] = done.lines
        return lines


@pytest.fixture
def move(request, tmp_path, programs, fresh_server, commands):
    """Both projects and their server."""
    server = fresh_server()
    queue = getattr(request, "param", "PriorityQueue")
    return Move(
        server,
        write_project(tmp_path / "old", server.url, moved=False, queue=queue),
        write_project(tmp_path / "new", server.url, moved=True),
        programs,
        commands,
    )


def kill_half_way(worker: Program, site: Web, count: int) -> None:
    """SIGKILL, when so many pages were asked for."""

    def enough() -> bool:
        assert worker.running, str(worker)
        return len(site.pages) >= count

    wait_until(enough, 60, lambda: f"{count} visits: {worker}")
    worker.kill()


@pytest.mark.long
@pytest.mark.one_server
@pytest.mark.parametrize("spider", ["mycrawler_redis", "links"])
@pytest.mark.parametrize("move", ["PriorityQueue", "FifoQueue"], indirect=True)
def test_a_crawl_with_rules_is_finished(move, spider):
    """No page that was fetched before is fetched again, and none is left out.

    But for those that scrapy-redis had taken from its queue and not asked for when it
    was killed: they are nowhere.
    """
    client: Any = move.server.client()
    with Web() as site:
        client.lpush("mycrawler:start_urls", f"{site.url}/start")
        options = {"site": site.url} if spider == "links" else {}
        kill_half_way(move.start(move.old, spider, **options), site, PAGES // 3)
        before = site.pages
        queue = f"{spider}:requests"
        count = client.zcard if client.type(queue) == b"zset" else client.llen
        waiting, seen = count(queue), client.scard(f"{spider}:dupefilter")
        assert waiting
        assert not client.exists("mycrawler:start_urls") or spider == "links"
        said = move.bring(spider)
        assert said[0].startswith(f"{waiting} requests and {seen} fingerprints")
        worker = move.start(move.new, spider, **options)
        finish(worker)
        after = site.pages
        assert site.visits["/start"] == 1
    nowhere = seen - len(before) - waiting
    assert 0 <= PAGES - len(after) <= nowhere <= CONCURRENCY
    assert set(after.values()) == {1}, "no page twice"
    assert "Settings of scrapy-redis have no effect here" in worker.output
    assert "SCHEDULER_PERSIST (a crawl that is not finished" in worker.output
    assert client.exists(queue), "the old crawl is as it was"


@pytest.mark.long
@pytest.mark.one_server
def test_a_spider_that_is_fed_goes_on_with_what_lies_in_its_key(move):
    """Messages, and what waited in the old queue, are read by its own method."""
    client: Any = move.server.client()
    key, spider = "myspider_redis:urls", "myspider_redis"
    paths = [f"/{number}" for number in range(40)]
    with Web() as site:
        client.rpush(key, *(f"{site.url}{p}?delay=0.05 tag{p}" for p in paths))
        kill_half_way(move.start(move.old, spider), site, 10)
        before = site.pages
        assert client.llen(key)
        if client.exists(f"{spider}:requests"):
            move.bring(spider)
        finish(move.start(move.new, spider))
        after = site.pages
    assert set(before) <= set(after)
    # Those that scrapy-redis had in its memory are gone with it.
    assert len(paths) - len(after) <= CONCURRENCY
    assert set(after.values()) == {1}
    assert not client.exists(key)


URLS = st.builds(
    "http://{}/{}?{}#{}".format,
    st.sampled_from(["a.example", "A.example:80", "b.example:8080"]),
    st.text(max_size=8),
    st.text(max_size=12),
    st.text(max_size=3),
)


@given(URLS, st.sampled_from(["GET", "POST", "put"]), st.binary(max_size=9))
def test_fingerprints_are_those_that_scrapy_redis_makes(url, method, body):
    """Of whatever request."""
    from scrapy_redis.dupefilter import RFPDupeFilter

    request = Request(url, method=method, body=body)
    theirs = RFPDupeFilter(None, "").request_fingerprint(request)
    assert ScrapyRedisFingerprinter().fingerprint(request).hex() == theirs
