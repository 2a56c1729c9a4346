"""Files of crawls: compressed or not, whole or not at all, and their owner's alone."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

from scrapy_redis_state.store.errors import Refused

File: TypeAlias = str | Path | BinaryIO
"""A path; or what bytes are read from or written to, such as ``sys.stdout.buffer``."""

PLAIN = (".jsonl", ".json")
"""Ends of the names of files that are not compressed."""

_MAGIC = b"\x1f\x8b"
_LEVEL = 6


def can_be_read_twice(file: File) -> bool:
    """Whether it is a file, and not the end of a pipe."""
    return isinstance(file, str | Path) and (
        Path(file).is_file() or not Path(file).exists()
    )


def name_of(file: File) -> str:
    """What to call it in errors."""
    return str(file) if isinstance(file, str | Path) else "the input"


@contextmanager
def reading(file: File) -> Iterator[IO[bytes]]:
    """The bytes of a file, uncompressed."""
    if isinstance(file, str | Path):
        with Path(file).open("rb") as opened:
            yield _uncompressed(opened)
    else:
        yield _uncompressed(file)


@contextmanager
def writing(file: File) -> Iterator[IO[bytes]]:
    """Where the bytes of a file go; a path has either all of them or what it had.

    Nobody but its owner may read the file: requests have logins in them.
    """
    if not isinstance(file, str | Path):
        with _compressed(file) as stream:
            yield stream
        file.flush()
        return
    path = Path(file)
    if path.exists() and not path.is_file():
        raise Refused(f"{path} is not a file that could be written.")
    if not path.parent.is_dir():
        raise Refused(f"{path}: there is no directory {path.parent}: make it first.")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as opened:
            if path.suffix in PLAIN:
                yield opened
            else:
                with _compressed(opened) as stream:
                    yield stream
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def _compressed(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    # Without a name: that of the part is not the file's.
    with gzip.GzipFile("", "wb", _LEVEL, stream) as file:
        yield cast("IO[bytes]", file)


def _uncompressed(stream: IO[bytes]) -> IO[bytes]:
    buffered: Any = stream
    if not hasattr(stream, "peek"):
        buffered = io.BufferedReader(cast("io.RawIOBase", stream))
    if buffered.peek(len(_MAGIC))[: len(_MAGIC)] == _MAGIC:
        # Its own lines are read byte by byte.
        return io.BufferedReader(gzip.GzipFile(fileobj=buffered, mode="rb"))
    return cast("IO[bytes]", buffered)
