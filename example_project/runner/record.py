"""What a run leaves for the next one: ``run.json``, beside its logs and items."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from runner.waiting import ScenarioError

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@dataclass
class WorkerRecord:
    """A worker that was started; its files bear its number."""

    number: int
    pid: int = 0
    role: str = "-"
    """A value of `runner.workers.Role`."""


@dataclass
class Record:
    """One crawl, over all the runs that it takes."""

    spider: str
    products: int
    server: str
    """URL given with ``--url``, without a password; empty: the embedded server."""
    crawl: str = field(default_factory=lambda: f"shop-example-{secrets.token_hex(4)}")
    """Crawl id, and with a colon the prefix of all its keys."""
    port: int = 0
    """Of the site, which is a part of each URL."""
    workers: list[WorkerRecord] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    """Leases of workers when they died."""
    is_finished: bool = False

    @property
    def prefix(self) -> str:
        return f"{self.crawl}:"

    def save(self, directory: Path) -> None:
        """Write it to ``run.json``: all of it or, if this is killed, nothing."""
        path = _path(directory)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self), indent=1, default=sorted))
        draft.replace(path)


def load(directory: Path) -> Record | None:
    """Return what the last run left, if there was one.

    :raises ScenarioError: it cannot be read
    """
    try:
        values = json.loads(_path(directory).read_text())
        workers = [WorkerRecord(**worker) for worker in values.pop("workers")]
        held = set(values.pop("held"))
        return Record(**values, workers=workers, held=held)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        text = f"{_path(directory)} cannot be read ({error}): delete it"
        raise ScenarioError(text) from error


def clear(directory: Path) -> None:
    """Delete what the last run left, but for the lock."""
    # The record goes last: as long as it is there, this is done again.
    for path in sorted(directory.iterdir(), key=lambda path: path == _path(directory)):
        if path != _lock(directory):
            path.unlink()


def lock(directory: Path, stack: ExitStack) -> None:
    """Make this the only run of the directory, until ``stack`` ends or we die.

    :raises ScenarioError: there is another one
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(_lock(directory), os.O_RDWR | os.O_CREAT, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = f"another run uses {directory}: wait for it, or name another --directory"
        raise ScenarioError(text) from None


def _path(directory: Path) -> Path:
    return directory / "run.json"


def _lock(directory: Path) -> Path:
    return directory / "run.lock"
