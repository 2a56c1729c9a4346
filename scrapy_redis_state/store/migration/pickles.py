"""Pickles of plain data, and no others."""

from __future__ import annotations

import datetime
import decimal
import io
import pickle
from typing import Any

_PLAIN: dict[tuple[str, str], Any] = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    # Of all that a dict in an order has, its contents.
    ("collections", "OrderedDict"): dict,
    ("datetime", "date"): datetime.date,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): decimal.Decimal,
    # A text of a page, which link extractors put into meta as it came.
    ("lxml.etree", "_ElementUnicodeResult"): str,
}
"""What a pickle may name. Beside these it has numbers, texts, bytes, lists, tuples and
dicts, which need no name."""


class NotPlain(ValueError):
    """A pickle names something that is not plain data."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # As older protocols call it.
        module = "builtins" if module == "__builtin__" else module
        try:
            return _PLAIN[module, name]
        except KeyError:
            raise NotPlain(f"names {module}.{name}, which is no plain data") from None


def is_pickle(data: bytes) -> bool:
    """Whether bytes look like a pickle of Python 3 (protocol 2 and later)."""
    return data.startswith(b"\x80")


def load_plain(data: bytes) -> Any:
    """The value of a pickle; nothing that it names is imported or called.

    :raises ValueError: if it is damaged, or not of plain data
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # noqa: BLE001
        # Damaged ones raise whatever comes to them, and so does a refused one.
        raise ValueError(f"is no pickle that can be read: {error!r:.200}") from None
