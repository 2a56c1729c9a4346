"""The workers: ``scrapy crawl`` in several processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from runner import processes
from runner.outcome import Item, WorkerOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.record import WorkerRecord


class Role(str, Enum):
    """What happens to a worker."""

    STEADY = "-"
    KILLED = "killed"
    STOPPED = "stopped"
    LATE = "joined late"
    INTERRUPTED = "run interrupted"


@dataclass(slots=True)
class Worker:
    """A worker of this run or of an earlier one: its log and the file of its items."""

    record: WorkerRecord
    directory: Path
    process: subprocess.Popen[str] | None = None
    """None for a worker of an earlier run."""

    @property
    def role(self) -> Role:
        return Role(self.record.role)

    @property
    def name(self) -> str:
        return f"worker {self.record.number} (pid {self.record.pid})"

    @property
    def log(self) -> Path:
        return self.directory / f"worker-{self.record.number}.log"

    @property
    def items_path(self) -> Path:
        return self.directory / f"worker-{self.record.number}.jsonl"

    def start(
        self, spider: str, site: str, settings: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start ``scrapy crawl`` with these settings on the command line."""
        command = [sys.executable, "-m", "runner.worker_process"]
        command += ["crawl", spider, "-a", f"site={site}"]
        items = str(self.items_path).replace("%", "%%")
        for name, value in {**settings, "SHOP_ITEMS": items}.items():
            command += ["-s", f"{name}={value}"]
        env = {**os.environ, "SCRAPY_SETTINGS_MODULE": "shop.settings"}
        self.process = processes.start(command, self.log, env=env)
        self.record.pid = self.process.pid
        return self.process

    def status(self) -> int | None:
        """Return the exit status, or ``-signal``; None while it runs."""
        return self.process.poll() if self.process else 0

    def is_running(self) -> bool:
        return self.status() is None

    def has_failed(self) -> bool:
        """Tell if it ended by itself, in another way than a worker should."""
        if self.role == Role.KILLED or self._was_told_when_closed():
            return False
        return self.status() not in (None, 0)

    def is_open(self) -> bool:
        """Tell if its spider was opened: from then on a signal closes it in order."""
        return "Spider opened" in self._log()

    def freeze(self) -> bool:
        """Send SIGSTOP and wait until it has stopped; False if it has ended instead."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return False

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM: Scrapy finishes the running pages and closes."""
        assert self.process is not None
        self.process.terminate()

    def wait(self, secs: float) -> None:
        """Wait for its end, but not for longer than this."""
        assert self.process is not None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(secs)

    def items(self) -> list[Item]:
        """Return what it has written, without a line that has no end yet."""
        if not self.items_path.exists():
            return []
        *lines, _incomplete = self.items_path.read_text().split("\n")
        records = (json.loads(line) for line in lines)
        return [Item(record["id"], record["delivered_at"]) for record in records]

    def redelivered(self) -> int:
        """Count the pages it was given after another worker, from its final stats."""
        counts = re.findall(r"'redis_state/redelivered': (\d+)", self._log())
        return sum(map(int, counts))

    def closed(self) -> str:
        """Tell how it ended: Scrapy's close reason, the signal or the exit status."""
        status = self.status()
        if status is not None and status < 0 and not self._was_told_when_closed():
            return signal.Signals(-status).name
        if reasons := self._reasons():
            return reasons[-1]
        if self.process is None:
            return Role.KILLED.value
        return "running" if status is None else f"exit status {status}"

    def outcome(self) -> WorkerOutcome:
        """Return all that the summary tells of it."""
        return WorkerOutcome(
            self.record.number,
            self.record.pid,
            self.role.value,
            tuple(self.items()),
            self.redelivered(),
            self.closed(),
        )

    def _was_told_when_closed(self) -> bool:
        """Tell if SIGTERM came when all was done and no handler was there any more."""
        was_told = self.role == Role.STOPPED and self.status() == -signal.SIGTERM
        return was_told and bool(self._reasons())

    def _reasons(self) -> list[str]:
        """Return the reasons that Scrapy closed with: one, or none yet."""
        return re.findall(r"Spider closed \((.+)\)", self._log())

    def _log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""
