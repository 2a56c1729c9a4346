"""Where the server of a directory keeps what, and who may use it."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from scrapy_redis_state.store.embedded import supervisor
from scrapy_redis_state.store.errors import Refused

SOCKET_BYTES = 103
"""Longest path of a socket: macOS has room for 104 bytes with the final zero."""

DATA = "appendonlydir"
"""What servers keep their data in."""

OTHER_DIRECTORY = "name another directory (embedded:/some/directory)"


@dataclass(frozen=True)
class Place:
    """The directory of a server."""

    directory: Path

    @classmethod
    def at(cls, directory: str | Path) -> Place:
        """The place, by one name however the directory is reached."""
        return cls(Path(os.path.realpath(directory)))

    @property
    def users(self) -> Path:
        return self.directory / supervisor.USERS

    @property
    def supervisor(self) -> Path:
        return self.directory / "supervisor.lock"

    @property
    def server(self) -> Path:
        return self.directory / supervisor.SERVER

    @property
    def log(self) -> Path:
        return self.directory / supervisor.LOG

    @property
    def socket(self) -> Path:
        """In the directory, or under ``/tmp`` if the path would be too long."""
        path = self.directory / "server.sock"
        if len(os.fsencode(path)) <= SOCKET_BYTES:
            return path
        name = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return _private_sockets() / f"{name}.sock"

    def is_new(self) -> bool:
        """Tell whether no server ever ran here.

        :raises OSError: if nobody lets this user look
        """
        return not any(map(_is_there, (self.supervisor, self.directory / DATA)))

    def prepare(self) -> None:
        """Create what is missing.

        :raises Refused: if another user owns the directory
        :raises OSError: if it cannot be created
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = self.directory.stat().st_uid
        if owner != os.geteuid():
            # Files of two owners in it would later keep the first from its own data.
            raise Refused(
                f"{self.directory} belongs to user {owner}, and this is user "
                f"{os.geteuid()}: run as its owner, or {OTHER_DIRECTORY}"
            )
        if self.socket.parent != self.directory:
            _make_private(self.socket.parent)


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _private_sockets() -> Path:
    # Not where the environment says: a process that another environment sends to
    # another place would not find the server.
    return Path("/tmp", f"scrapy-redis-state-{os.geteuid()}")  # noqa: S108 - see below


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not private or found.st_uid != os.geteuid():
        raise Refused(
            f"{directory} is not a private directory of this user (it takes the socket,"
            f" as the data's path is long): remove it, or {OTHER_DIRECTORY} with a"
            " short path"
        )
