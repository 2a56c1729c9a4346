"""Starting and ending the processes of the example, each by its own id."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROJECT = Path(__file__).resolve().parent.parent
"""The directory of the example: working directory of all its processes."""


def start(
    command: Sequence[str],
    log: Path,
    *,
    piped: bool = False,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a process whose errors (and output, unless ``piped``) go to ``log``.

    Its standard input is a pipe that ends when this process does, however it does. It
    gets its own session: Ctrl-C in the terminal reaches the runner alone, which then
    ends everything in order.
    """
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603 - the commands are the runner's own
            command,
            cwd=PROJECT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if piped else file,
            stderr=file,
            text=True,
            start_new_session=True,
        )


def end(process: subprocess.Popen[str]) -> None:
    """End a process, whatever its state, and wait until it is gone.

    With SIGKILL: a worker that is stopped never sees a SIGTERM.
    """
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log, indented, for an error message."""
    text = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in text)
