"""Runs the server of the current directory, and stops it when nobody uses it.

A program: ``python supervisor.py LOCK SOCKET SERVER``, where LOCK is the inherited
descriptor of ``supervisor.lock``. Its output is why the server did not stay, and empty
if it was stopped because nobody used it. It runs without site-packages: nothing but the
standard library may be imported here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

USERS = Path("users.lock")
SERVER = Path("server.lock")
LOG = Path("server.log")
OLD_LOG = Path("server.log.1")

LINGER_SECS = 1.0
"""How long an unused server stays: a process closes one client and opens another."""
POLL_SECS = 0.1
STOP_SECS = 10.0
"""Patience with a server that was told to stop; then it is killed."""
LOCK_SECS = 5.0
LOG_BYTES = 1_000_000
"""The log and the one before it are each about so long at most."""

PR_SET_PDEATHSIG = 1

OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    # Every command is in the append-only file. A snapshot beside it would be written
    # and never read.
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    # A server that was killed may leave half a command at the end of its file.
    "aof-load-truncated": "yes",
    # The machine's memory is the limit, and nothing is ever dropped to make room.
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
}


def main(lock: int, socket: str, program: str) -> None:
    """Leave the process that started this one alone, and supervise."""
    if os.fork():
        # The starter waits for this process, and need not wait for the other.
        os._exit(0)
    # Those who stop all processes (a service manager, a shutdown) stop the workers too,
    # which need the server to end well.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    try:
        problem = supervise(lock, socket, program)
    except OSError as error:
        problem = ": ".join(map(str, filter(None, (error.strerror, error.filename))))
    if problem:
        report(problem)


def supervise(lock: int, socket: str, program: str) -> str:
    """Run the server for as long as it is used; why it did not stay, if so."""
    # Held already, unless the file system does not know inherited locks (NFS).
    if not within(LOCK_SECS, lambda: try_lock(lock)):
        return ""
    users, server_lock = open_lock(USERS), open_lock(SERVER)
    if not within(LOCK_SECS, lambda: try_lock(server_lock)):
        return "another server still runs there"
    # Also finds out whether the disk is full, of which the log could not tell.
    os.truncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    bound_log()
    with LOG.open("ab") as log:
        logged = log.tell()
        server = start(socket, program, server_lock, log.fileno())
    problem = watch(server, users, logged)
    with contextlib.suppress(OSError):
        if is_current(users):
            Path(socket).unlink()
    # In this order: whoever gets the second finds the first free.
    fcntl.flock(lock, fcntl.LOCK_UN)
    return problem


def start(
    socket: str, program: str, server_lock: int, log: int
) -> subprocess.Popen[bytes]:
    """Start the server as a child that holds its lock and dies with this process."""
    command = [program, "--unixsocket", socket]
    for name, value in OPTIONS.items():
        command += [f"--{name}", value]
    os.write(log, b"Started by process %d\n" % os.getpid())
    return subprocess.Popen(  # noqa: S603 - the program that the wheel brings
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # An unknown locale in the environment would keep it from starting.
        env=os.environ | {"LC_ALL": "C"},
        pass_fds=[server_lock],
        # SIGXFSZ stays ignored: a file that may not grow is then an error, of which
        # the clients hear, and not the end of the server.
        restore_signals=False,
        preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
    )


def _end_with(parent: int) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # noqa: PLC0415 - some builds of Python have none
    except ImportError:
        return None
    prctl = ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return end_with_parent


def watch(server: subprocess.Popen[bytes], users: int, logged: int) -> str:
    """Wait until the server is not used any more and stop it; or until it ends."""
    used = time.monotonic()
    while server.poll() is None:
        if not is_current(users):
            server.kill()
            server.wait()
            return "the directory was deleted"
        if not try_lock(users):
            used = time.monotonic()
        elif time.monotonic() - used < LINGER_SECS:
            fcntl.flock(users, fcntl.LOCK_UN)
        else:
            stop(server)  # and nobody comes in meanwhile
            return ""
        bound_log()
        time.sleep(POLL_SECS)
    if server.returncode < 0:
        return f"signal {-server.returncode} ended it"
    return f"it ended with status {server.returncode}{last_words(logged)}"


def stop(server: subprocess.Popen[bytes]) -> None:
    """Have the server write what it has, and end."""
    server.terminate()
    try:
        server.wait(STOP_SECS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def report(problem: str) -> None:
    """Tell the starter, if it still listens, and the log."""
    text = problem.encode(errors="replace")
    with contextlib.suppress(OSError):
        os.write(1, text)
    with contextlib.suppress(OSError), LOG.open("ab") as log:
        log.write(b"Process %d gave up: %b\n" % (os.getpid(), text))


def last_words(logged: int) -> str:
    """What the server said last as a warning, in what it logged from a position."""
    with contextlib.suppress(OSError), LOG.open("rb") as log:
        log.seek(logged)
        warnings = [line for line in log.read().splitlines() if b" # " in line]
        if warnings:
            return ": " + warnings[-1].partition(b" # ")[2].decode(errors="replace")
    return ""


def bound_log() -> None:
    """Keep the log short; the server holds the file open, so it is emptied."""
    with contextlib.suppress(OSError):
        if LOG.stat().st_size > LOG_BYTES:
            shutil.copyfile(LOG, OLD_LOG)
            os.truncate(LOG, 0)


def open_lock(path: Path) -> int:
    """Open a lock file; no other program inherits it."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(lock: int) -> bool:
    """Take a lock exclusively, if nobody else has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_current(users: int) -> bool:
    """Tell whether the directory still has the file that is locked."""
    try:
        return os.path.samestat(os.fstat(users), USERS.stat())
    except OSError:
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition; False if the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
