"""Lines of the file of a crawl: written with a checksum, and read with all doubt."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import IO, Any

from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.move.form import FORMAT, VERSION, Record

MOST_LINE_BYTES = 64 * 2**20
"""The largest request, and the largest piece of a Bloom filter, take less."""

_NEWER = (
    "it was written by scrapy-redis-state {package}: import it with that version, or a"
    " newer one"
)


class LineWriter:
    """Writes lines, and what proves that they are all there.

    :param stream: gets bytes; closed by whoever made it
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def write(self, kind: str, fields: Record) -> None:
        """One line."""
        text = json.dumps({"kind": kind, **fields}, separators=(",", ":"))
        line = text.encode() + b"\n"
        self._digest.update(line)
        self._stream.write(line)

    def end(self, fields: Record) -> None:
        """The last line."""
        self.write("end", {**fields, "sha256": self._digest.hexdigest()})


class LineReader:
    """Reads lines, and knows at the end whether they are all there.

    :param stream: gives the bytes, uncompressed
    :param name: what to call it in errors
    :raises Refused: if it does not begin as the file of a crawl, or is of a later
        version
    """

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.name = name
        self._last = b""
        self.number = 0
        """Of the last line that was read."""
        self.header = self._header()
        self.end: Record = {}
        """The last line; empty before it was read."""

    def _header(self) -> Record:
        try:
            header = self._next()
        except Refused:
            header = {}
        if header.get("kind") != "header" or header.get("format") != FORMAT:
            raise Refused(f"{self.name} is not an exported crawl.")
        if header.get("version") != VERSION:
            raise Refused(
                f"{self.name} has version {header.get('version')!r} of the format, and"
                f" {VERSION} is known here: {_NEWER.format(**self._writer(header))}."
            )
        return header

    def expect(self, kind: str) -> Record:
        """The next line, which must be of this kind."""
        record = self._next()
        if record.get("kind") != kind:
            raise self.refusal(f"is not the {kind} line that stands there")
        return record

    def records(self) -> Iterator[Record]:
        """All lines up to the last, which is checked.

        :raises Refused: if the file is damaged, or not whole
        """
        while (record := self._next()).get("kind") != "end":
            yield record
        if record.get("sha256") != self._digest.hexdigest():
            raise Refused(
                f"{self.name} is damaged: its checksum is another than its last line"
                " says. Export the crawl again."
            )
        if self._read_line():
            raise self.refusal("follows the last line")
        self.end = record

    def refusal(self, problem: str) -> Refused:
        """The error that something is wrong with the line that was read last."""
        return Refused(f"{self.name}: line {self.number} {problem}.")

    def unknown(self, kind: object) -> Refused:
        """The error that the line is of a kind that this version does not know."""
        remedy = _NEWER.format(**self._writer(self.header))
        return self.refusal(f"is of kind {kind!r}, which is not known here: {remedy}")

    def _writer(self, header: Record) -> dict[str, object]:
        return {"package": str(header.get("package"))[:40]}

    def _next(self) -> Record:
        line = self._read_line()
        if not line.endswith(b"\n"):
            raise Refused(
                f"{self.name} is cut off after line {self.number}: copy or export it"
                " again."
            )
        self.number += 1
        self._digest.update(self._last)  # never the last line itself
        self._last = line
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise self.refusal("is no JSON") from None
        if not isinstance(record, dict):
            raise self.refusal("is no JSON object")
        return record

    def _read_line(self) -> bytes:
        try:
            line = self._stream.readline(MOST_LINE_BYTES)
        except EOFError:
            return b""
        except (OSError, zlib.error) as error:
            raise Refused(
                f"{self.name} is damaged after line {self.number}: {error}."
            ) from None
        if len(line) == MOST_LINE_BYTES:
            self.number += 1
            raise self.refusal("is longer than any line of an exported crawl")
        return line
