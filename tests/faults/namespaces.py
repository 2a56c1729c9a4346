"""Workers that share no network with anything, and reach the server by one way only.

A network namespace has a loopback interface of its own. A process in it forwards TCP
ports there to Unix sockets, which the file system leads out of it; so nothing but
loopback traffic is ever seen, and nothing is left when that process ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import IN_CI
from tests.processes import Programs

if TYPE_CHECKING:
    from tests.processes import Program

FORWARDER = Path(__file__).with_name("forwarder.py")
NET, NET_OF_USERS = "--net", "--user"
"""A namespace of networks as root may have it, and one in a namespace of users."""


def require() -> None:
    """Skip the test, and say why, where no namespaces can be had.

    That is for the kernel to say: in CI the programs must be there.
    """
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        reason = "needs unshare and nsenter (util-linux)"
        (pytest.fail if IN_CI else pytest.skip)(reason)
    if not _kind():
        pytest.skip(f"no network namespaces here: {_try(NET)}; {_try(NET_OF_USERS)}")


@cache
def _kind() -> str:
    """The one of both that this machine lets us have; empty if neither."""
    return next((kind for kind in (NET, NET_OF_USERS) if not _try(kind)), "")


def _try(kind: str) -> str:
    """Why it cannot be had; empty if it can."""
    tried = subprocess.run(
        [*_new(kind), "true"], check=False, capture_output=True, text=True
    )
    return tried.stderr.strip() if tried.returncode else ""


def _new(kind: str) -> list[str]:
    return ["unshare", "--net", *(["--user", "--map-root-user"] * (kind != NET))]


def _enter(kind: str) -> list[str]:
    return ["nsenter", "--net", *(["--user", "--preserve-credentials"] * (kind != NET))]


def network_of(pid: int) -> str:
    """Which network a process is in."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


class Namespace(Programs):
    """Starts programs in a network namespace, each in a directory of its own.

    ``ways`` are TCP ports in there, and the Unix sockets to which they lead.
    """

    def __init__(self, outside: Programs, ways: dict[int, Path]) -> None:
        super().__init__(outside.directory)
        self._outside = outside
        ports = [f"{port}={socket}" for port, socket in ways.items()]
        own_network = [
            *_new(_kind()),
            sys.executable,
            str(FORWARDER),
            "--own-network",
            *ports,
        ]
        self._keeper = outside.run(*own_network, name="forwarder")
        self._keeper.wait_for_output("ready")

    def run(self, *command: str | Path, name: str = "", **options: Any) -> Program:
        directory = self.directory / f"namespace-{self._keeper.pid}"
        directory.mkdir(exist_ok=True)
        inside = [*_enter(_kind()), f"--target={self._keeper.pid}"]
        options["cwd"] = directory
        return self._outside.run(*inside, *command, name=name, **options)


def way_out(outside: Programs, socket: Path, port: int) -> Path:
    """A Unix socket that leads to a TCP port of this machine."""
    forwarder = outside.python(FORWARDER, f"{socket}={port}", name="way-out")
    forwarder.wait_for_output("ready")
    return socket
