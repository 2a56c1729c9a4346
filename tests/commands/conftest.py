from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_redis_state.store import CrawlState
from tests.commands.commands import Commands, Installed, installation
from tests.crawl.crawls import Crawls
from tests.processes import REPOSITORY, Programs
from tests.servers import Server


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An installation of the package: its metadata, which names its commands."""
    directory = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(
        [*build, "-d", str(directory)], cwd=REPOSITORY, capture_output=True, check=True
    )
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" in name]
        archive.extractall(directory, names)
    with installation(directory) as installed:
        yield installed


@pytest.fixture
def commands(
    installed: Installed, server: Server, crawl_name: str, tmp_path: Path
) -> Commands:
    """Runs ``scrapy redis-state``, for the crawl of the test."""
    return Commands(installed, server.url, crawl_name, tmp_path)


@pytest.fixture
def state(server: Server, crawl_name: str):
    """The crawl of the test, seen by another program."""
    with CrawlState.connect(server.url, crawl=crawl_name) as state:
        yield state
        assert state.fsck() == []


@pytest.fixture
def crawls(programs: Programs, server: Server, crawl_name: str) -> Crawls:
    """Starts workers."""
    return Crawls(programs, server, crawl_name)
