"""Locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

guard = threading.Lock()
"""For whoever replaces one lock file by another; held for microseconds."""


class LockFile:
    """An open lock file, not locked yet.

    A forked process does not have it: it would keep the lock if its parent dies.
    """

    def __init__(self, path: Path) -> None:
        """:raises OSError: if the file cannot be opened and created."""
        self._path = path
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        _open.add(self)

    def fileno(self) -> int:
        """The open descriptor, to be passed on."""
        assert self._descriptor is not None
        return self._descriptor

    def try_shared(self) -> bool:
        """Take the lock as one of many. False if somebody has it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock alone. False if anybody has it."""
        return self._try(fcntl.LOCK_EX)

    @property
    def is_open(self) -> bool:
        """False in a forked process."""
        return self._descriptor is not None

    def is_current(self) -> bool:
        """Tell whether it is open, and still the file that others will lock."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            return False

    def unlock(self) -> None:
        """Let go of the lock, in the name of those too that the file was passed to."""
        fcntl.flock(self.fileno(), fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. The lock goes on where the file was passed to."""
        descriptor, self._descriptor = self._descriptor, None
        _open.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_open: set[LockFile] = set()


def _after_fork() -> None:
    global guard  # noqa: PLW0603 - a thread that is not in this process may hold it
    guard = threading.Lock()
    for lock in list(_open):
        lock.close()


os.register_at_fork(after_in_child=_after_fork)
