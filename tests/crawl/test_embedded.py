"""Crawls that bring their server along: ``REDIS_STATE_URL = "embedded:"``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import sync_client
from tests.crawl.crawls import close_reason, finish
from tests.crawl.shop import Shop
from tests.processes import Program, Programs, wait_until
from tests.store.embedded import Home

PRODUCTS = 60


class Project:
    """A Scrapy project with the server of its own."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.directory = programs.directory / "project"
        self.directory.mkdir()
        (self.directory / "scrapy.cfg").write_text(
            "[settings]\ndefault = tests.crawl.project.settings\n"
        )
        self.records = programs.directory / "records"
        self.records.mkdir()
        self.home = Home(self.directory / ".scrapy" / "redis-state", programs)

    def worker(self, shop: Shop, cwd: str = ".", **settings: object) -> Program:
        given = {"REDIS_STATE_URL": "embedded:", "RECORDS": self.records}
        return self.programs.crawl(
            "shop",
            settings=given | settings,
            arguments={"site": shop.url},
            cwd=self.directory / cwd,
        )

    def products(self) -> list[Any]:
        """Every line that a worker recorded."""
        files = self.records.iterdir()
        return [line for file in files for line in file.read_text().splitlines()]

    def wait_for_products(self, count: int) -> None:
        wait_until(lambda: len(self.products()) >= count, 40, f"{count} products")

    def state(self) -> CrawlState:
        return CrawlState.connect(self.home.url, crawl="scrapybot:shop")


@pytest.fixture
def project(programs: Programs) -> Project:
    return Project(programs)


def test_kills_are_survived(project: Project):
    """Of its starter and of the server itself; then nothing is left running."""
    with Shop(PRODUCTS, delay=0.2) as shop:
        workers = [project.worker(shop) for _ in range(3)]
        project.wait_for_products(3)
        (starter,) = (w for w in workers if "Starting a server in" in w.output)
        starter.kill()
        workers.remove(starter)
        project.wait_for_products(15)
        with sync_client(project.home.url) as client:
            os.kill(client.info("server")["process_id"], signal.SIGKILL)
        finish(*workers)
        assert len(project.products()) >= PRODUCTS
    with project.state() as state:
        assert state.fsck() == []
        assert state.status().summary.done == PRODUCTS + shop.lists
    project.home.wait_until_left()


def test_the_next_run_goes_on(project: Project):
    """A crawl that was stopped is resumed from files, also from a directory below."""
    (project.directory / "below").mkdir()
    with Shop(PRODUCTS, delay=0.2) as shop:
        worker = project.worker(shop)
        project.wait_for_products(10)
        worker.interrupt()
        worker.wait_for_success()
        assert close_reason(worker) == "shutdown"
        project.home.wait_until_left()
        finish(project.worker(shop, "below"))
        assert len(project.products()) == PRODUCTS
        assert shop.visits.total() == PRODUCTS + shop.lists
    project.home.wait_until_left()


def test_no_place_for_it(programs: Programs):
    """Where Scrapy has no place for a project's data, one must be named."""
    env = {"SCRAPY_SETTINGS_MODULE": "tests.crawl.project.settings"}
    settings = {"REDIS_STATE_URL": "embedded:", "RECORDS": "."}
    arguments = {"site": "unused"}
    worker = programs.crawl("shop", settings=settings, arguments=arguments, env=env)
    assert worker.wait() == 1
    last = worker.output.splitlines()[-1]
    assert "REDIS_STATE_URL = 'embedded:'" in last
    assert "name a directory" in last


def test_not_in_a_project(programs: Programs, tmp_path: Path):
    """A spider in a file has its data in the directory that it is run in."""
    spider = tmp_path / "spider.py"
    spider.write_text(
        "import scrapy\n"
        "class Spider(scrapy.Spider):\n"
        "    name = 'one'\n"
        "    start_urls = ['data:,']\n"
        "    custom_settings = {'REDIS_STATE_URL': 'embedded:',\n"
        "        'ADDONS': {'scrapy_redis_state.Addon': 500}}\n"
        "    def parse(self, response):\n"
        "        yield {}\n"
    )
    finish(programs.crawl("spider.py"))
    home = Home(tmp_path / ".scrapy" / "redis-state", programs)
    assert home.log()
    home.wait_until_left()
