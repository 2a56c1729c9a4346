"""The workers of a crawl together: those of this run, and those of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner import processes
from runner.record import WorkerRecord
from runner.waiting import ScenarioError
from runner.workers import Role, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from runner.record import Record


@dataclass
class Crew:
    """Starts workers, which are ended with ``stack``, and looks at all there were."""

    record: Record
    directory: Path
    stack: ExitStack
    workers: list[Worker] = field(init=False)

    def __post_init__(self) -> None:
        self.workers = [Worker(w, self.directory) for w in self.record.workers]

    def take_over(self) -> None:
        """Note what ended the workers of earlier runs: that the run did."""
        for worker in self.workers:
            had_left = worker.role == Role.STOPPED and worker.closed() != Role.KILLED
            if worker.role != Role.KILLED and not had_left:
                worker.record.role = Role.INTERRUPTED.value

    def start(
        self, site: str, settings: Mapping[str, str], role: Role = Role.STEADY
    ) -> Worker:
        """Start one more worker."""
        record = WorkerRecord(len(self.workers) + 1, role=role.value)
        worker = Worker(record, self.directory)
        self.workers.append(worker)
        self.record.workers.append(record)
        # Before it runs: if we are killed, its items are counted all the same.
        self.record.save(self.directory)
        process = worker.start(self.record.spider, site, settings)
        self.stack.callback(processes.end, process)
        self.record.save(self.directory)
        return worker

    def running(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_running()]

    def check(self) -> None:
        """See that none has failed.

        :raises ScenarioError: one has, which was not killed by us
        """
        for worker in self.workers:
            if worker.has_failed():
                text = f"{worker.name} failed ({worker.closed()}), its log ends with"
                raise ScenarioError(f"{text}\n{processes.tail(worker.log)}")

    def items(self) -> int:
        """Count the items that all have written."""
        return sum(len(worker.items()) for worker in self.workers)

    def delivered(self) -> int:
        """Count the products that are among those items."""
        return len({item.product for w in self.workers for item in w.items()})

    def stop(self, secs: float) -> None:
        """Have them hand back what they hold; who takes longer will be killed."""
        running = self.running()
        for worker in running:
            worker.stop()
        for worker in running:
            worker.wait(secs)
