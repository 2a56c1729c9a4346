"""Runs of the example project, and what they say."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from tests.processes import Program, Programs, wait_until
from tests.store.embedded import Home

EXAMPLE = Path(__file__).resolve().parents[2] / "example_project"
PRODUCTS = 60
RESUMED = "The last run was interrupted and is resumed"


class Example:
    """Runs of ``run.py`` that share a directory."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.directory = programs.directory / "data"
        self.home = Home(self.directory / "redis-state", programs)

    def run(self, *options: str) -> Program:
        path, directory = str(EXAMPLE / "run.py"), str(self.directory)
        return self.programs.python(path, "--directory", directory, *options)

    def small(self, *options: str) -> Program:
        return self.run("--products", str(PRODUCTS), *options)

    def items(self) -> int:
        files = (self.directory / "example").glob("worker-*.jsonl")
        return sum(file.read_text().count("\n") for file in files)

    def wait_until_half_way(self, run: Program) -> None:
        run.wait_for_output(" killed with ")
        # A little less, or a worker may just be told to stop.
        wait_until(lambda: self.items() >= PRODUCTS * 0.4, 60, lambda: str(run))
        assert run.running, str(run)


def pids(output: str, *, of: str = "") -> list[int]:
    """Process ids that a run told, of the lines with a text."""
    return [
        int(number)
        for line in output.splitlines()
        if of in line
        for group in re.findall(r"\bpids? ([\d, ]+)", line)
        for number in re.findall(r"\d+", group)
    ]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(output: str) -> None:
    assert len(pids(output)) >= 4  # a site and three workers
    wait_until(lambda: not any(map(is_alive, pids(output))), 10, output)


def figure(run: Program, name: str) -> int:
    """A number of the summary."""
    found = re.search(rf"^{name} +(\d+)", run.output, re.MULTILINE)
    assert found, str(run)
    return int(found[1])


def assert_all_is_accounted_for(run: Program, products: int = PRODUCTS) -> None:
    run.wait_for_success()
    assert figure(run, "lost") == figure(run, "given up") == 0, str(run)
    assert figure(run, "items") == products + figure(run, "repeated"), str(run)


def outcome(modules: Any, first: list[int], second: list[int], **values: Any) -> Any:
    """Two workers, the first killed, on a site of four products, 3 a recent one."""
    result, item = modules("outcome"), modules("outcome").Item
    items = iter(range(100))
    return result.Outcome(
        catalog=importlib.import_module("storefront.catalog").Catalog(4),
        workers=tuple(
            result.WorkerOutcome(
                number,
                100 + number,
                role,
                tuple(item(p, next(items)) for p in ids),
                0,
                closed,
            )
            for number, ids, role, closed in (
                (1, first, "killed", "SIGKILL"),
                (2, second, "-", "finished"),
            )
        ),
        **{
            "hits": tuple(result.Hit(f"/product/{p}", 200) for p in first + second),
            "held": 1,
            "given_up": 0,
            **values,
        },
    )
