"""A call of a Lua script: what is sent, and how the reply is read.

Building one is apart from running it (:mod:`.runner`), so the same definition serves
asyncio and synchronous programs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Generic, TypeVar

import msgpack

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script and the name under which servers remember it."""

    text: str
    sha: str


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A script call that is ready to be run."""

    script: Script
    keys: list[str]
    args: list[bytes | str | int]
    read: Callable[[Any], T]


@cache
def load_script(name: str) -> Script:
    """Read ``lua/<name>.lua`` and put its includes in."""
    folder = files(__package__).joinpath("lua")

    def include(match: re.Match[str]) -> str:
        path = folder.joinpath("include").joinpath(f"{match[1]}.lua")
        return path.read_text(encoding="utf-8")

    text = folder.joinpath(f"{name}.lua").read_text(encoding="utf-8")
    text = re.sub(r"^-- @include (\w+)$", include, text, flags=re.MULTILINE)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def pack(value: Any) -> bytes:
    """A value as scripts unpack it."""
    # Redis' own unpacker knows no `bin` type. A lone surrogate in the reason of a dead
    # letter must not stop the batch that carries it.
    packed: bytes = msgpack.packb(
        value, use_bin_type=False, unicode_errors="surrogatepass"
    )
    return packed


def as_text(value: bytes | str) -> str:
    """What a reply has as bytes, or as text."""
    return value.decode() if isinstance(value, bytes) else value


def pairs(flat: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    """Of a flat list, two by two."""
    return zip(flat[::2], flat[1::2], strict=True)
