"""The how-to: its project goes on with a crawl of scrapy-redis."""

from __future__ import annotations

import os
import pickle
import shlex
from typing import Any

import pytest
from scrapy import Request, Spider

from scrapy_redis_state.migration import ScrapyRedisFingerprinter
from scrapy_redis_state.migration.their_settings import REPLACEMENTS
from tests.processes import REPOSITORY, wait_until
from tests.site import Site
from tests.test_documentation import command

PAGE = REPOSITORY / "docs" / "howto" / "migrate-from-scrapy-redis.rst"


def blocks() -> dict[str, str]:
    """The captioned blocks, which stand in a list, without their indentation."""
    found: dict[str, list[str]] = {}
    caption = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("      :caption: "):
            caption = line.partition(": ")[2]
        elif caption and (not line or line.startswith(" " * 6)):
            found.setdefault(caption, []).append(line[6:])
        else:
            caption = ""
    return {name: "\n".join(lines).strip() + "\n" for name, lines in found.items()}


def test_every_setting_of_scrapy_redis_is_in_the_table():
    """Those that are warned of, and those that are refused."""
    page = PAGE.read_text()
    for name in [*REPLACEMENTS, "SCHEDULER", "DUPEFILTER_CLASS"]:
        assert f"``{name}``" in page, name


@pytest.mark.one_server
def test_the_project_of_the_page_goes_on(fresh_server, programs, tmp_path, commands):
    """Settings, spider and commands as they stand there."""
    server = fresh_server()
    client: Any = server.client()
    page = blocks()
    settings = page["settings.py"].replace("redis://localhost:6379/0", server.url)
    (tmp_path / "settings.py").write_text(settings)
    (tmp_path / "spiders.py").write_text(page["spiders.py"])
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    with Site() as site:
        waiting = [Request(f"{site.url}/{number}") for number in range(3)]
        for request in waiting:
            entry = pickle.dumps(request.to_dict(spider=Spider("offers")), protocol=-1)
            client.zadd("offers:requests", {entry: -request.priority})
            fingerprint = ScrapyRedisFingerprinter().fingerprint(request)
            client.sadd("offers:dupefilter", fingerprint.hex())
        client.lpush("offers:start_urls", f"{site.url}/message")
        words = shlex.split(command(page["import"]))
        assert words[:2] == ["scrapy", "redis-state"]
        path = os.pathsep.join([commands.path, str(tmp_path)])
        done = commands.run(*words[2:], env={"PYTHONPATH": path})
        assert done.status == 0, done
        assert done.output.startswith("3 requests and 3 fingerprints imported")
        words = shlex.split(command(page["crawl"]))
        worker = programs.scrapy(*words[1:], cwd=tmp_path)
        wait_until(lambda: len(site.visits) == 4, message=lambda: str(worker))
        # It stays for messages.
        client.rpush("offers:start_urls", f"{site.url}/later")
        wait_until(lambda: "/later" in site.visits, message=lambda: str(worker))
        worker.terminate()
        worker.wait()
        assert site.visits == {f"/{name}": 1 for name in (0, 1, 2, "message", "later")}
    assert "Settings of scrapy-redis" not in worker.output
