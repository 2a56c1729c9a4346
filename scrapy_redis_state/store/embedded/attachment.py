"""A client's side: have the server run while it is used."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from scrapy_redis_state.store.embedded import locks, supervisor
from scrapy_redis_state.store.embedded.binary import find_server
from scrapy_redis_state.store.embedded.locks import LockFile
from scrapy_redis_state.store.embedded.place import OTHER_DIRECTORY, Place
from scrapy_redis_state.store.errors import RedisStateError, Refused, Unavailable

logger = logging.getLogger(__name__)

START_SECS = 30.0
"""Patience with a server that starts, or with one that stops before; it may be one of
many programs that start at once. One that loads its data has all the time it takes."""
_PAUSE_SECS = 0.02
_ANSWER_SECS = 2.0


class Attachment:
    """Keeps the server of a directory running while it is attached.

    Any number of threads may use one.

    :param directory: of the data; created when needed
    """

    def __init__(self, directory: str | Path) -> None:
        self._place = Place.at(directory)
        self._users: LockFile | None = None
        self._worked = False
        self.times_detached = 0
        """Whoever attaches meanwhile (in a thread) must not count again."""

    @property
    def socket(self) -> Path:
        """Where the server listens while this is attached."""
        return self._place.socket

    def refuse_new(self) -> None:
        """:raises Refused: if no server ever ran in the directory"""
        directory = self._place.directory
        try:
            is_new = self._place.is_new()
        except OSError as error:
            raise self._unusable(error) from None
        if is_new:
            raise Refused(
                f"There is no server in {directory}, and there never was: correct"
                " REDIS_STATE_URL (--url), or have a worker or 'push' begin one."
            )

    def attach(self, times_detached: int | None = None) -> None:
        """Count as a user, and return when the server answers; start it if need be.

        Blocks: milliseconds if it runs, else for as long as a start takes. To be called
        again before each new connection, as the server may have ended.

        :param times_detached: :attr:`times_detached` when this was asked for, if this
            call could begin later than that; now, if not given
        :raises Refused: if it cannot be started
        :raises Unavailable: if it cannot be started *again*, or was detached meanwhile
        """
        if times_detached is None:
            times_detached = self.times_detached
        try:
            self._attach(times_detached)
        except OSError as error:
            raise self._unusable(error) from None
        self._worked = True

    def detach(self) -> None:
        """Count as a user no more; never waits. The last one's server is stopped."""
        with locks.guard:
            self.times_detached += 1
            self._let_go()

    # --- users -----------------------------------------------------------------------

    def _attach(self, times_detached: int) -> None:
        if not self._worked:
            find_server()  # before anything is created
        deadline = time.monotonic() + START_SECS
        self._place.prepare()
        while not self._try_to_count(times_detached):
            if time.monotonic() > deadline:
                raise self._failure(self._no_answer("does not stop"))
            time.sleep(_PAUSE_SECS)
        self._wait_for_server(deadline)

    def _try_to_count(self, times_detached: int) -> bool:
        """Hold ``users.lock``; False while a server is being stopped."""
        with locks.guard:
            if self.times_detached != times_detached:
                raise Unavailable("the client was closed while it connected")
            if self._users is not None and self._users.is_current():
                return True
            self._let_go()
            users = LockFile(self._place.users)
            # It may have been deleted, and made anew by another, since it was opened.
            if users.try_shared() and users.is_current():
                self._users = users
                return True
            users.close()
            return False

    def _let_go(self) -> None:
        users, self._users = self._users, None
        if users is not None and users.is_open:
            users.unlock()
            users.close()

    # --- the server ------------------------------------------------------------------

    def _wait_for_server(self, deadline: float) -> None:
        start: _Start | None = None
        try:
            while True:
                start = start or self._start_if_alone()
                answer = _ask(self.socket)
                if answer is _Answer.READY:
                    return
                if answer is _Answer.LOADING:
                    deadline = time.monotonic() + START_SECS
                elif start and start.has_ended():
                    self._check(start)
                    start.close()
                    start = None
                elif time.monotonic() > deadline:
                    raise self._failure(self._no_answer("does not answer"))
                time.sleep(_PAUSE_SECS)
        finally:
            if start:
                start.close()

    def _start_if_alone(self) -> _Start | None:
        """Start a supervisor, unless there is one."""
        lock = LockFile(self._place.supervisor)
        try:
            if not lock.try_exclusive():
                return None
            program = find_server()
            self._end_forsaken_server()
            logger.info(
                "Starting a server in %(directory)s",
                {"directory": self._place.directory},
            )
            return _Start(self._place, program, lock)
        finally:
            lock.close()  # the supervisor, if one was started, has the lock

    def _end_forsaken_server(self) -> None:
        """End a server that outlived its supervisor."""
        lock = LockFile(self._place.server)
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if lock.try_exclusive():
                    return
                pid = _listener(self.socket)
                if pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                supervisor.within(supervisor.STOP_SECS, lock.try_exclusive)
            if not lock.try_exclusive():
                raise self._failure(
                    f"a server that cannot be reached still runs in "
                    f"{self._place.directory}: end it (its process id is in "
                    f"{self._place.log})"
                )
        finally:
            lock.close()

    def _check(self, start: _Start) -> None:
        problem = start.problem()
        if problem:
            raise self._failure(
                f"the embedded server in {self._place.directory} does not start "
                f"({problem}): mend that, {OTHER_DIRECTORY}, or move the files away to "
                f"begin anew; its log is {self._place.log}"
            )

    def _no_answer(self, what: str) -> str:
        return (
            f"the embedded server in {self._place.directory} {what} within "
            f"{START_SECS:g} s: see {self._place.log}, or {OTHER_DIRECTORY} if another "
            "machine uses this one"
        )

    def _unusable(self, error: OSError) -> RedisStateError:
        return self._failure(
            f"{self._place.directory} cannot be used ({error.strerror}): see that "
            f"this user can write there, or {OTHER_DIRECTORY}"
        )

    def _failure(self, text: str) -> RedisStateError:
        # What kept it from coming back (a full disk) may pass; a crawl then goes on.
        return Unavailable(text) if self._worked else Refused(text)


class _Start:
    """A supervisor just started, for as long as its server may fail to start."""

    def __init__(self, place: Place, program: Path, lock: LockFile) -> None:
        command = [sys.executable, "-I", "-S", supervisor.__file__]
        self._process = subprocess.Popen(  # noqa: S603 - this Python and our program
            [*command, str(lock.fileno()), str(place.socket), str(program)],
            cwd=place.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
        # It leaves the supervisor behind as a process of its own, and ends at once.
        self._process.wait()
        assert self._process.stdout
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._text: bytes | None = None

    def has_ended(self) -> bool:
        """Tell whether the supervisor is gone."""
        self._text = self._output.read()
        return self._text is not None

    def problem(self) -> str:
        """Why it is gone, if it said so. One line."""
        return " ".join((self._text or b"").decode(errors="replace").split())

    def close(self) -> None:
        self._output.close()


class _Answer(enum.Enum):
    NONE = enum.auto()
    LOADING = enum.auto()
    READY = enum.auto()


def _ask(path: Path) -> _Answer:
    """What is at a socket; one that is merely slow is ready."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECS)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(b"PING\r\n")
            reply = connection.recv(64)
        except TimeoutError:
            return _Answer.READY
        except OSError:
            return _Answer.NONE
    if reply.startswith(b"-LOADING"):
        return _Answer.LOADING
    return _Answer.READY if reply else _Answer.NONE


def _listener(path: Path) -> int | None:
    """Process that listens at a socket, as the kernel says; works if it is stopped."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECS)
        try:
            connection.connect(os.fspath(path))
            if sys.platform == "linux":
                level, option = socket.SOL_SOCKET, socket.SO_PEERCRED
            else:
                level, option = 0, 2  # SOL_LOCAL, LOCAL_PEERPID of macOS
            pid: int
            (pid,) = struct.unpack_from("i", connection.getsockopt(level, option, 12))
        except OSError:
            return None
    return pid
