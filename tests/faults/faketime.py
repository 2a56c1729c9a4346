"""Clocks that a test can set, by Debian's ``faketime``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from pathlib import Path

LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime*")


def library() -> str | None:
    """Path of what has to be preloaded; None where it is not installed."""
    found = [path for pattern in LIBRARIES for path in glob(pattern)]  # noqa: PTH207
    return found[0] if found else None


class Clock:
    """A wall clock for programs started with :attr:`environment`.

    What measures durations (CLOCK_MONOTONIC) is left as it is, as it is on a machine
    whose wall clock is set.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, offset_secs: int) -> None:
        """Let the programs' clocks jump to so many seconds after the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_secs:+d}\n")
        new.replace(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        path = library()
        assert path is not None
        return {
            "LD_PRELOAD": path,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @contextmanager
    def for_programs(self) -> Iterator[None]:
        """Have the clock in programs that are started meanwhile."""
        environment = self.environment
        os.environ.update(environment)
        try:
            yield
        finally:
            for name in environment:
                del os.environ[name]
