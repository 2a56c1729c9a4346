"""Payloads with something left out, whatever else they hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgpack

from scrapy_redis_state.codec.errors import NotDecodable
from scrapy_redis_state.codec.payload import MESSAGE, META, NAMES, seal, unseal
from scrapy_redis_state.codec.values import Codec


def without_meta(payload: bytes, names: Collection[str]) -> bytes:
    """The payload without these keys of ``meta``.

    Nothing in it is built, so it may hold what only a spider's project knows.

    :raises NotDecodable, UnknownCode: as for a worker
    """
    fields = _wired(unseal(payload))
    holder: dict[Any, Any] = fields
    key: Any = META
    if isinstance(fields.get(MESSAGE), dict):
        holder, key = fields[MESSAGE], NAMES[META]
    meta = holder.get(key)
    # With keys that are not plain it is an array; counters in such a one are kept.
    if not isinstance(meta, dict) or not any(name in meta for name in names):
        return payload
    holder[key] = {name: value for name, value in meta.items() if name not in names}
    return seal(Codec().pack(fields))


def _wired(packed: bytes) -> dict[Any, Any]:
    """The fields as MessagePack has them."""
    try:
        fields = msgpack.unpackb(
            packed, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except Exception as error:
        raise NotDecodable(f"is damaged or not a request: {error!r}") from error
    if not isinstance(fields, dict):
        raise NotDecodable("is damaged: it is not a map of fields")
    return fields
