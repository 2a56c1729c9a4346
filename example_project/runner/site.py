"""Starts the shop's site."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from runner import processes
from runner.waiting import ScenarioError

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


class Site(NamedTuple):
    """The site of a run."""

    url: str
    pid: int

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


def start_site(
    directory: Path, products: int, slow_secs: float, port: int, stack: ExitStack
) -> Site:
    """Start the site; its access log is ``access_log``. Ended with ``stack``.

    :param port: 0 for any; the port of the run that is resumed, whose URLs have it
    :raises ScenarioError: it does not start
    """
    log = directory / "site.log"
    command = [sys.executable, "-m", "storefront", "--port", str(port)]
    command += ["--products", str(products), "--slow-secs", str(slow_secs)]
    command += ["--log", str(access_log(directory))]
    process = processes.start(command, log, piped=True)
    stack.callback(processes.end, process)
    assert process.stdout is not None
    if url := process.stdout.readline().strip():
        return Site(url, process.pid)
    raise ScenarioError(
        f"the site did not start (if its port {port} is taken, start over with"
        f" --fresh):\n{processes.tail(log)}"
    )


def access_log(directory: Path) -> Path:
    """Return where the site notes each request."""
    return directory / "access.jsonl"
