"""Values <-> bytes: what is read equals what was written, or it is refused.

Equal in value and in type, that is. The bytes are MessagePack. Its null, booleans,
integers, floats, text, bytes and maps stand for themselves. **Every array starts with
the number of its kind**: 0 for a list, others for what MessagePack does not know (a
tuple, a date, a number beyond 64 bits). A map with keys that are not plain is an array
too.

MessagePack's extension types are not used: what they contain is decoded by recursion,
each level takes 50 kB of the C stack, and 200 levels kill the process.

Reading runs no code but the builders of the kinds; a kind is known by number, never by
the name of something to import.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import msgpack

from scrapy_redis_state.codec.errors import NotDecodable, NotEncodable, UnknownCode
from scrapy_redis_state.codec.kinds import DICT, LARGE_INT, STANDARD, Kind

MAX_DEPTH = 200
"""Levels of containers in a value. The MessagePack library gives up at 500 to 1000."""

MAX_VALUES = 1_000_000
"""Values inside a value; each container counts for ten more, as it takes that much
longer. Containers that share parts are written out in full, so a few dozen small lists
can stand for more values than there is memory."""

PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types that are MessagePack's own."""

_LXML = "lxml.etree"
"""Its texts, such as the ``link_text`` that each rule of a CrawlSpider puts into meta,
are equal to plain ones; they only remember which document they are from."""


class Codec:
    """Packs and unpacks values of the plain types, dicts, and the kinds it is given.

    ``find`` is asked once for each type that no kind is for, and may return one.
    """

    def __init__(
        self,
        kinds: Iterable[Kind] = (),
        find: Callable[[type], Kind | None] = lambda _: None,
    ) -> None:
        every = (*STANDARD, *kinds)
        self._by_type: dict[type, Kind] = {kind.type: kind for kind in every}
        self._builders = {kind.number: kind.build for kind in every}
        self._find = find
        self._left = 0
        self._packer = _new_packer()

    def wire(self, value: Any) -> Any:
        """Return ``value`` as MessagePack has it; it may be ``value`` itself.

        :raises NotEncodable: with the path to what cannot be written.
        """
        if type(value) in PLAIN:
            return value
        self._left = MAX_VALUES
        return self._wire(value, MAX_DEPTH)

    def pack(self, wired: Any) -> bytes:
        """Return the bytes of what ``wire`` returned (or a dict of such values)."""
        packed: bytes = self._packer.pack(wired)
        if len(packed) > _KEPT_BYTES:
            self._packer = _new_packer()
        return packed

    def unpack(self, data: bytes) -> Any:
        """Return the value that ``data`` was packed from.

        :raises NotDecodable: it was not made by ``pack``.
        :raises UnknownCode: it holds a kind of value that this codec does not know.
        """
        try:
            return msgpack.unpackb(
                data,
                strict_map_key=False,
                unicode_errors="surrogatepass",
                list_hook=self._build,
                ext_hook=_refuse_extension,
            )
        except (NotDecodable, UnknownCode):
            raise
        except Exception as error:  # anyone may have written the bytes
            raise NotDecodable(f"is damaged or not a request: {error!r}") from error

    def _wire(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if cls in PLAIN:
            return value
        if cls is not dict and cls.__module__ == _LXML and isinstance(value, str):
            return str(value)
        if not depth:
            raise NotEncodable(
                f"is nested more than {MAX_DEPTH} levels deep, or contains itself; "
                "flatten it"
            )
        if cls is dict:
            return self._wire_dict(value, depth - 1)
        return self._wire_kind(self._kind(cls), value, depth - 1)

    def _wire_kind(self, kind: Kind, value: Any, depth: int) -> list[Any]:
        parts = kind.parts(value)
        self._spend(len(parts))
        if PLAIN.issuperset(map(type, parts)):
            return [kind.number, *parts]
        wired: list[Any] = [kind.number]
        for index, part in enumerate(parts):
            try:
                wired.append(self._wire(part, depth))
            except NotEncodable as error:
                place = (
                    f"[{index}]" if kind.indexed else f" (in its {_name(kind.type)})"
                )
                error.path = place + error.path
                raise
        return wired

    def _wire_dict(self, value: dict[Any, Any], depth: int) -> Any:
        if not PLAIN.issuperset(map(type, value)):
            return self._wire_kind(DICT, value, depth)
        self._spend(len(value))
        if PLAIN.issuperset(map(type, value.values())):
            return value
        wired = {}
        for key, item in value.items():
            if type(item) in PLAIN:
                wired[key] = item
                continue
            try:
                wired[key] = self._wire(item, depth)
            except NotEncodable as error:
                error.path = f"[{reprlib.repr(key)}]{error.path}"
                raise
        return wired

    def _spend(self, count: int) -> None:
        self._left -= count + 10
        if self._left < 0:
            raise NotEncodable(
                f"holds too many values ({MAX_VALUES} at most, fewer in small "
                "containers); keep them elsewhere and store a reference"
            )

    def _kind(self, cls: type) -> Kind:
        kind = self._by_type.get(cls) or self._find(cls)
        if kind is None:
            raise NotEncodable(_unknown_type(cls))
        self._by_type[cls] = kind
        return kind

    def _build(self, items: list[Any]) -> Any:
        if not items or type(items[0]) is not int:
            raise NotDecodable("is damaged: it holds an array without a kind")
        number = items.pop(0)
        build = self._builders.get(number)
        if build is None:
            raise UnknownCode(
                f"holds a value of kind {number}, which this version does not know"
            )
        return build(items)


_KEPT_BYTES = 2**20
"""A packer keeps a buffer of the size of the largest value it packed."""


def _new_packer() -> msgpack.Packer:
    return msgpack.Packer(
        strict_types=True, unicode_errors="surrogatepass", default=_large_int
    )


def _large_int(value: Any) -> list[Any]:
    """MessagePack asks this about integers of more than 64 bits only."""
    return [LARGE_INT.number, *LARGE_INT.parts(value)]


def _refuse_extension(code: int, _: bytes) -> NoReturn:
    raise NotDecodable(f"is damaged: it holds an extension type ({code})")


def _name(cls: type) -> str:
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"{module}{cls.__qualname__}"


def _unknown_type(cls: type) -> str:
    name = _name(cls)
    known = PLAIN | {dict} | {kind.type for kind in STANDARD}
    base = next((base.__name__ for base in cls.__mro__ if base in known), None)
    if base:
        return f"is of type {name}; convert it with {base}()"
    return (
        f"is of type {name}, which cannot be stored; pass plain values instead "
        "(numbers, text, bytes, dates, lists, dicts and the like)"
    )
