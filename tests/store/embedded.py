"""Programs that use an embedded server, and what is left when they are gone."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import redis

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.embedded.place import Place
from scrapy_redis_state.store.embedded.supervisor import LINGER_SECS
from tests.processes import Program, Programs, wait_until

SECONDS = 10 + LINGER_SECS
"""Within which everything happens, on a machine with other work."""

READY = "connected to process "
CHILD_SECONDS = 60


class Home:
    """A directory with an embedded server, and the programs that use it."""

    def __init__(self, directory: Path, programs: Programs) -> None:
        self.place = Place.at(directory)
        self.url = f"embedded:{self.place.directory}"
        self.programs = programs

    def user(self, *options: str) -> Program:
        """Start a program that connects, and stays until it is ended."""
        return self.programs.python(
            "-m", __name__, self.url, *options, cwd=self.programs.directory
        )

    def server_of(self, user: Program) -> int:
        """Process id of the server that a program is connected to."""
        user.wait_for_output("\n")
        line = user.output.splitlines()[0]
        assert line.startswith(READY), str(user)
        return int(line.removeprefix(READY))

    def answers(self) -> bool:
        """Tell whether a server is there, without being one of its users."""
        with sync_client(f"unix://{quote(str(self.place.socket))}") as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

    def supervisor(self) -> int:
        """Process id of the supervisor, which runs."""
        return int(self.place.supervisor.read_text())

    def is_left(self) -> bool:
        """Tell whether neither a server nor a supervisor runs."""
        return all(_is_free(p) for p in (self.place.server, self.place.supervisor))

    def wait_until_left(self) -> None:
        """Wait until nothing runs, as nobody is there any more."""
        wait_until(self.is_left, SECONDS, self.log)

    def append_only_file(self) -> Path:
        """The file that the server appends to."""
        (path,) = self.place.directory.glob("appendonlydir/*.incr.aof")
        return path

    def log(self) -> str:
        """What server and supervisor have logged."""
        return self.place.log.read_text() if self.place.log.exists() else "no log"


NewHome = Callable[[str | Path], Home]


def counted(home: Home) -> int:
    """How often a program connected, since the directory was created."""
    with sync_client(home.url) as client:
        return int(client.get("users") or 0)


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def main(url: str, option: str = "") -> None:
    """Connect, count, say to which server, and stay."""
    with sync_client(url) as client:
        client.incr("users")
        if option == "--fork" and not os.fork():
            time.sleep(CHILD_SECONDS)
            os._exit(0)
        print(f"{READY}{client.info('server')['process_id']}", flush=True)  # noqa: T201
        if option != "--leave":
            time.sleep(CHILD_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
