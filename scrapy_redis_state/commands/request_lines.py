"""Lines of text that are requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from scrapy_redis_state.store.errors import one_line
from scrapy_redis_state.store.request_text import read_object, read_request
from scrapy_redis_state.store.requests import message_operation, store_operation

if TYPE_CHECKING:
    from scrapy_redis_state.store.canonical import UrlRules
    from scrapy_redis_state.store.messages import Store


class RequestLines:
    """Reads requests, line by line, and leaves out what is none.

    :param rules: which URLs are the same page
    :param priority: instead of each request's own
    :param as_json: lines are JSON, and not URLs
    :param as_messages: objects may have any fields, which a spider understands
    :param report: told what is wrong with a line, and its number
    """

    def __init__(
        self,
        rules: UrlRules,
        *,
        priority: int | None,
        as_json: bool,
        as_messages: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self._rules = rules
        self._priority = priority
        self._as_json = as_json
        self._as_messages = as_messages
        self._report = report
        self.good = 0
        """How many were requests."""
        self.bad = 0

    def read(self, lines: Iterable[bytes]) -> Iterator[Store]:
        """The requests of a file; empty lines are left out."""
        return self._read_all("line", lines)

    def read_arguments(self, texts: Iterable[str]) -> Iterator[Store]:
        """The requests of a command line."""
        lines = (text.encode(errors="surrogateescape") for text in texts)
        return self._read_all("argument", lines)

    def _read_all(self, kind: str, lines: Iterable[bytes]) -> Iterator[Store]:
        for number, line in enumerate(lines, 1):
            try:
                operation = self._read(line)
            except (ValueError, TypeError, AttributeError, LookupError) as error:
                self.bad += 1
                self._report(f"{kind} {number}: {one_line(error)}")
                continue
            if operation is not None:
                self.good += 1
                yield operation

    def _read(self, line: bytes) -> Store | None:
        text = line.decode().removeprefix(_MARK).strip()
        return self._operation(text) if text else None

    def _operation(self, text: str) -> Store:
        if not self._as_json:
            return store_operation(text, self._priority, self._rules)
        read = read_object if self._as_messages else read_request
        given = read(text)
        if self._as_messages and not isinstance(given, str):
            return message_operation(given, self._priority, self._rules)
        return store_operation(given, self._priority, self._rules)


_MARK = "\ufeff"
"""What some editors put at the start of a file."""
