"""The examples of the page about pushing, as they stand there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrapy_redis_state.store import CrawlState
from tests.processes import REPOSITORY, Programs, wait_until
from tests.servers import Server
from tests.site import Site
from tests.test_documentation import blocks, command, items

PAGE = REPOSITORY / "docs" / "howto" / "push.rst"


@pytest.mark.one_server
def test_a_producer_feeds_a_worker_that_waits(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """The spider and the program of the page, on a crawl and a site of their own."""
    page = blocks(PAGE)
    with Site() as site:
        for name in ("orders.py", "producer.py"):
            text = page[name].replace("redis://localhost:6379/0", server.url)
            text = text.replace('"orders"', f'"{crawl_name}"')
            text = text.replace("https://shop.example", site.url)
            (tmp_path / name).write_text(text)
        assert command(page["worker"]) == "scrapy runspider orders.py"
        worker = programs.scrapy("runspider", "orders.py", cwd=tmp_path)
        worker.wait_for_output(", worker ")
        producer = programs.python("producer.py", cwd=tmp_path)
        producer.wait_for_success()
        assert producer.output.split() == ["True", "3"]
        with CrawlState.connect(server.url, crawl=crawl_name) as state:
            wait_until(lambda: state.status().summary.done == 4, 60)
            state.drain()
            worker.wait_for_success()
    orders = {json.loads(line)["order"] for line in items(tmp_path)}
    assert orders == {4711, 0, 1, 2}
