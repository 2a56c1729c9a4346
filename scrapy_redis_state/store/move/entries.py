"""Requests as they are kept in Redis, and as they stand in the file of a crawl."""

from __future__ import annotations

import math
import re
from typing import Any

import msgpack

from scrapy_redis_state.store.call import pack
from scrapy_redis_state.store.move.form import Record, bytes_of, json_of, whole

LAST_ID = 99_999_999_999_999
"""As in include/entry.lua."""

NOBODY = "-"
"""As in include/entry.lua: some worker, that is no more, handed it back."""

_HEAD = re.compile(rb"(-?\d{1,16});(\d{1,9});([^;]*);")
_ID = re.compile(r"\d{14}", re.ASCII)


def sequence_of(id: str) -> int:
    """The least sequence that an id can have been taken from, in either order.

    :raises ValueError: if it is no id
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"has {id[:40]!r} as an id, which is none of this package")
    return min(int(id), LAST_ID - int(id))


def number_of(score: bytes) -> float | int:
    """A score as a number, whole if it is."""
    value = float(score)
    return int(value) if value.is_integer() else value


def describe_request(id: str, score: bytes, entry: bytes) -> dict[str, Any]:
    """One that is ordered by its priority."""
    head = _HEAD.match(entry)
    record: dict[str, Any] = {"id": id}
    if head is None:
        return record | {"score": number_of(score), "entry": json_of(entry)}
    record["priority"] = int(head[1])
    if number_of(score) != record["priority"]:
        record["score"] = number_of(score)
    return record | _what(head, entry)


def describe_delayed(id: str, score: bytes, entry: bytes) -> dict[str, Any]:
    """One that is ordered by its time."""
    record: dict[str, Any] = {"id": id, "not_before": number_of(score)}
    head = _HEAD.match(entry)
    if head is None:
        return record | {"entry": json_of(entry)}
    if head[3]:
        # Which tells whether it may be a suspect, see include/reap.lua.
        record["handed_back"] = True
    return record | {"priority": int(head[1])} | _what(head, entry)


def _what(head: re.Match[bytes], entry: bytes) -> dict[str, Any]:
    return {"deliveries": int(head[2]), "payload": json_of(entry[head.end() :])}


def describe_letter(id: str, score: bytes, info: bytes) -> dict[str, Any]:
    """One that was given up."""
    record: dict[str, Any] = {"id": id, "given_up": number_of(score)}
    try:
        found = msgpack.unpackb(info, raw=True, strict_map_key=False)
        read = {
            "priority": int(found[b"priority"]),
            "deliveries": int(found[b"deliveries"]),
            **{n: json_of(found[n.encode()]) for n in ("reason", "worker", "payload")},
        }
    except Exception:  # noqa: BLE001 - anybody may have written the bytes
        return record | {"info": json_of(info)}
    return record | read


def entry_of(record: Record) -> bytes:
    """What the hash of requests has.

    :raises ValueError: if the line has no such thing
    """
    if "entry" in record:
        return bytes_of(record["entry"])
    priority, deliveries = whole(record, "priority"), whole(record, "deliveries", 0)
    refusers = NOBODY if record.get("handed_back") is True else ""
    head = f"{priority};{deliveries};{refusers};"
    return head.encode() + bytes_of(record.get("payload"))


def letter_of(record: Record) -> bytes:
    """What the hash of dead letters has.

    :raises ValueError: if the line has no such thing
    """
    if "info" in record:
        return bytes_of(record["info"])
    numbers = {name: whole(record, name) for name in ("priority", "deliveries")}
    texts = {n: bytes_of(record.get(n)) for n in ("reason", "worker", "payload")}
    return pack(numbers | texts)


def score_of(record: Record, *names: str) -> str:
    """The score in the first of these fields that there is.

    :raises ValueError: if it is no number
    """
    value = next((record[name] for name in names if name in record), None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"has no number as {names[-1]}")
    return repr(value)
