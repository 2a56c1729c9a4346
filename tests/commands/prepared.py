"""Runs of ``scrapy`` in processes that are forked from one that has imported Scrapy.

Importing takes most of the time of a short command. Directory, environment, files and
arguments are as if the process had been started; what Scrapy does with them is done in
the forked process alone. ``python prepared.py`` reads a line of JSON for each run, one
after the other, and answers with its exit status.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Prepared:
    """A process in which Scrapy is imported; ended with the ``with`` block.

    :param command: starts Python
    :param env: its environment, of which the module path is that of all runs
    """

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(
        self,
        words: list[str],
        cwd: Path,
        env: Mapping[str, str],
        text: str,
        secs: float,
    ) -> tuple[int, str, str]:
        """Run ``scrapy WORDS``: its exit status, and what it printed to each stream.

        Raises AssertionError if it takes longer than so many seconds.
        """
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.TemporaryDirectory() as directory:
            files = [str(Path(directory, name)) for name in ("stdin", "out", "err")]
            Path(files[0]).write_bytes(text.encode())
            run = {"words": words, "cwd": str(cwd), "env": dict(env), "files": files}
            self._process.stdin.write(json.dumps(run).encode() + b"\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], secs)[0]:
                self._process.kill()
                raise AssertionError(f"scrapy {words}: still running after {secs} s")
            status = int(self._process.stdout.readline())
            output, errors = (Path(file).read_bytes().decode() for file in files[1:])
        return status, output, errors


def main() -> bool:
    """Fork for each run, until there are no more; true in a process that was forked."""
    with os.fdopen(os.dup(0)) as runs, os.fdopen(os.dup(1), "w") as answers:
        for line in runs:
            run = json.loads(line)
            pid = os.fork()
            if not pid:
                _become(**run)
                return True
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    return False


def _become(words: list[str], cwd: str, env: dict[str, str], files: list[str]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    modes = [os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2]
    for number, (file, mode) in enumerate(zip(files, modes, strict=True)):
        opened = os.open(file, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.path[0] = cwd
    sys.argv = ["scrapy", *words]
    sys.orig_argv = [sys.executable, "-m", "scrapy", *words]


if __name__ == "__main__":
    import scrapy.cmdline  # noqa: F401 - for the processes that are forked

    import scrapy_redis_state.commands.verbs
    import scrapy_redis_state.store  # noqa: F401 - for the processes that are forked

    if main():
        runpy.run_module("scrapy", run_name="__main__", alter_sys=True)
