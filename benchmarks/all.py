"""All benchmarks, one after the other.

``python -m benchmarks.all --quick`` takes some ten minutes and changes no file that is
committed. ``--full`` takes an hour, writes ``results/``, and draws the plots and fills
the page of the documentation anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.results import RESULTS

QUICK = RESULTS / "quick"

QUICK_PARTS: dict[str, list[str]] = {
    "crawl": ["--quick"],
    "store": ["--quick"],
    "scale": ["--quick"],
    "soak": ["--quick"],
    "micro": [
        *("--requests", "2000", "--pages", "400", "--pairs", "1"),
        *("--json", str(QUICK / "micro.json")),
    ],
    "memory": [
        *("--urls", "100000", "--requests", "50000"),
        *("--json", str(QUICK / "memory.json")),
    ],
}
"""By name of the benchmark, what it is told."""

FULL_PARTS: dict[str, list[str]] = {
    "crawl": ["--scrapy-redis", "make"],
    "store": ["--rounds", "3", "--pages", "3000"],
    "scale": ["--seconds", "10"],
    "soak": [],
    "micro": ["--json", str(RESULTS / "micro.json")],
}
"""Memory takes too long for this; what it says does not depend on the machine."""


def main() -> int:
    """Run them as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.all", description=__doc__)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="some benchmarks, by name"
    )
    options = parser.parse_args()
    parts = FULL_PARTS if options.full else QUICK_PARTS
    QUICK.mkdir(parents=True, exist_ok=True)
    failed = [
        name
        for name, arguments in parts.items()
        if name in (options.only or parts) and not _run(name, arguments)
    ]
    if options.full:
        failed += [name for name in ("plots", "page") if not _run(name, [])]
    _run("goals", [] if options.full else ["--results", str(QUICK)])
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return len(failed)


def _run(name: str, arguments: list[str]) -> bool:
    if not Path(__file__).with_name(f"{name}.py").exists():
        print(f"\n=== {name}: there is none", flush=True)
        return True
    print(f"\n=== {name} {' '.join(arguments)}", flush=True)
    start = time.monotonic()
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(command, check=False)  # noqa: S603 - this very program
    print(f"({time.monotonic() - start:.0f} s)", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
