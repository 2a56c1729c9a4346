"""Fill a crawl from a file: all of it, or nothing that anybody could use."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_redis_state.store import scripts as crawl_scripts
from scrapy_redis_state.store.client import translated
from scrapy_redis_state.store.errors import RedisStateError, Refused
from scrapy_redis_state.store.keys import FIXED_KEYS, CrawlKeys
from scrapy_redis_state.store.messages import SCHEMA_VERSION, CrawlStatus
from scrapy_redis_state.store.move import scripts
from scrapy_redis_state.store.move.files import (
    File,
    can_be_read_twice,
    name_of,
    reading,
)
from scrapy_redis_state.store.move.form import (
    AGREED,
    LEFT_BEHIND,
    Moved,
    Progress,
    Record,
    bytes_of,
    mapped,
    whole,
)
from scrapy_redis_state.store.move.lines import LineReader
from scrapy_redis_state.store.move.pieces import Piece, PieceReader
from scrapy_redis_state.store.operator_steps import OperatorSteps
from scrapy_redis_state.store.runner import run, run_steps
from scrapy_redis_state.store.seen import EARLIER_EPOCHS, SeenSet
from scrapy_redis_state.store.server_check import check_seen_set

if TYPE_CHECKING:
    from redis import Redis

_NEW_EPOCHS = EARLIER_EPOCHS + 1
"""Nobody may take the seen set of a copy, nor of the epochs before that count, for one
that the crawl had."""
_BATCH = 500
_BATCH_BYTES = 2**20


def import_crawl(
    client: Redis, keys: CrawlKeys, file: File, *, progress: Progress | None = None
) -> Moved:
    """Make a crawl of a file, as it was, where there is none.

    A file that has a path is read twice, so that nothing is written if it is damaged;
    of anything else the end is awaited before anybody can use the crawl.

    :param keys: of the crawl; its seen set is as the file says
    :param file: a path, or what bytes are read from
    :raises Refused: if there is such a crawl, or the file cannot be used; nothing of it
        is left then
    """
    tell = progress or (lambda *_: None)
    twice = can_be_read_twice(file)
    if twice:
        with reading(file) as stream:
            _read_through(_Source(LineReader(stream, name_of(file)), keys), tell)
    with reading(file) as stream:
        source = _Source(LineReader(stream, name_of(file)), keys)
        read = source.total if twice else 0
        work = _Import(
            client, source, lambda done, total: tell(read + done, read + total)
        )
        return work.run()


class _Source:
    """What a file says, checked line by line.

    :param lines: of which the header was read
    :param keys: of the crawl that it is for
    """

    def __init__(self, lines: LineReader, keys: CrawlKeys) -> None:
        self.lines = lines
        crawl = lines.expect("crawl")
        try:
            agreed = _fields(lines.header, "settings")
            self.fields = _fields(crawl, "fields")
            self.seen_set = SeenSet.parse(agreed.get("seen", b"exact").decode())
            generation = int(self.fields.get("generation", b"0"))
            self.status = CrawlStatus(crawl.get("status"))
            self.epoch = whole(crawl, "epoch", 0) + _NEW_EPOCHS
        except ValueError as error:
            raise Refused(f"{lines.name} cannot be used: {error}.") from None
        schema = agreed.get("schema", SCHEMA_VERSION.encode()).decode()
        is_half = self.status is CrawlStatus.IMPORTING or generation < 1
        if schema != SCHEMA_VERSION or is_half:
            raise Refused(
                f"{lines.name} is of a crawl that cannot be imported here (version of"
                f" its keys {schema!r}, state {self.status.value!r}): use the version"
                f" that wrote it ({lines.header.get('package')})."
            )
        self.fields |= {AGREED + name: value for name, value in agreed.items()}
        self.keys = replace(keys, seen_set=self.seen_set)
        self._pieces = PieceReader(self.keys, self.epoch)

    @property
    def total(self) -> int:
        """About how much there is; 0 if the file does not say."""
        expected = self.lines.header.get("expected")
        values = expected.values() if isinstance(expected, dict) else ()
        return sum(value for value in values if isinstance(value, int))

    def pieces(self) -> Iterator[Piece]:
        """All that follows; at the end it is known to be whole."""
        for record in self.lines.records():
            try:
                piece = self._pieces.read(record)
            except ValueError as error:
                raise self.lines.refusal(str(error)) from None
            if piece is None:
                raise self.lines.unknown(record.get("kind"))
            yield piece
        if self._pieces.sequence > self.sequence:
            raise self.lines.refusal(
                f"has {self.sequence} as sequence, from which not all ids were taken"
            )

    @property
    def changed(self) -> bool:
        """Whether the crawl did while it was exported; known at the end."""
        return self.lines.end.get("changed") is not False

    @property
    def sequence(self) -> int:
        """From which the last request id was taken; known at the end."""
        try:
            return whole(self.lines.end, "sequence", 0)
        except ValueError as error:
            raise self.lines.refusal(str(error)) from None

    @property
    def expected(self) -> Mapping[str, int]:
        """How much there is of each kind; known at the end."""
        try:
            return mapped(self.lines.end, "counts")
        except ValueError as error:
            raise self.lines.refusal(str(error)) from None


def _fields(record: Record, name: str) -> dict[str, bytes]:
    fields = mapped(record, name)
    return {n: bytes_of(v) for n, v in fields.items() if n not in LEFT_BEHIND}


def _read_through(source: _Source, tell: Progress) -> None:
    """Raise what is wrong with a file; it is read once more afterwards."""
    done = 0
    for piece in source.pieces():
        done += piece.amount
        tell(done, 2 * source.total)


class _Import:
    """One import."""

    def __init__(self, client: Redis, source: _Source, progress: Progress) -> None:
        self._client = client
        self._source = source
        self._keys = source.keys
        self._epoch = source.epoch
        self._progress = progress
        self._token = uuid.uuid4().hex
        self._added: Counter[str] = Counter()
        self._batch: list[Piece] = []
        self._batch_bytes = 0
        self._kept_sessions = 0
        self._may_be_there = False

    def run(self) -> Moved:
        """Do it, or leave nothing."""
        try:
            with translated():
                self._begin()
                for piece in self._source.pieces():
                    self._write(piece)
                self._flush()
                self._end()
        except BaseException as error:
            if self._may_be_there:
                self._remove(error)
            raise
        return Moved(
            str(self._source.lines.header.get("crawl")),
            self._source.status.value,
            {kind: count for kind, count in self._added.items() if count},
            self._notes(),
        )

    def _begin(self) -> None:
        key = self._keys.named("crawl")
        for finding in check_seen_set(self._client, key, self._source.seen_set):
            raise Refused(f"{self._source.lines.name} cannot be used: {finding.text}.")
        fields = {**self._source.fields, "epoch": b"%d" % self._epoch}
        call = scripts.begin(self._keys, self._epoch, self._token, fields)
        self._may_be_there = True
        status, key = run(self._client, call)
        self._may_be_there = status == "ok"
        crawl = f"crawl {self._keys.crawl!r}"
        if status == "importing":
            raise Refused(
                f"Somebody imports {crawl}, or an import of it broke off: if none runs"
                " any more, 'delete' it first."
            )
        if status == "exists":
            raise Refused(
                f"There is a {crawl} already (the key {key!r}), and two crawls are not"
                " mixed: 'delete' it first, or import under another id."
            )

    # --- pieces ----------------------------------------------------------------------

    def _write(self, piece: Piece) -> None:
        if piece.session is not None:
            fields, expires_at = piece.record
            call = scripts.restore_session(piece.session, fields, expires_at)
            restored = run(self._client, call)
            self._added["session"] += restored
            self._kept_sessions += not restored
            return
        self._batch.append(piece)
        self._batch_bytes += _size(piece)
        if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._batch:
            return
        numbers: dict[str, int] = {}
        records = []
        for piece in self._batch:
            record = piece.record
            if piece.key:
                following = FIXED_KEYS + 1 + len(numbers)
                record = [record[0], numbers.setdefault(piece.key, following)]
                record += piece.record[2:]
            records.append(record)
        call = scripts.write(
            self._keys, self._epoch, self._token, records, list(numbers)
        )
        added = run(self._client, call)
        if not added:
            raise self._gone()
        for piece, count in zip(self._batch, added, strict=True):
            self._added[piece.kind] += count
        self._batch, self._batch_bytes = [], 0
        self._progress(self._added.total(), self._source.total)

    # --- the end ---------------------------------------------------------------------

    def _end(self) -> None:
        if not self._source.changed:
            self._compare(self._source.expected)
        added = self._added
        sizes = [
            added["pending"] + added["in_flight"],
            *(added[kind] for kind in ("delayed", "suspect", "dead")),
        ]
        call = scripts.end(
            self._keys,
            self._epoch,
            self._token,
            self._source.status.value,
            sequence=self._source.sequence,
            sizes=sizes,
        )
        outcome, position = run(self._client, call)
        self._may_be_there = outcome != "ok"
        if outcome == "gone":
            raise self._gone()
        if outcome != "ok":
            raise Refused(
                f"Crawl {self._keys.crawl!r} was written to by something else while it"
                " was imported: give each program a key prefix of its own."
            )
        while position:
            call_of_tidy = crawl_scripts.tidy(self._keys, position)
            position = run(self._client, call_of_tidy)

    def _compare(self, expected: Mapping[str, int]) -> None:
        """Raise if something came twice, or less than the last line says."""
        for kind in {*expected, *self._added} - {"session"}:
            if self._added[kind] != expected.get(kind, 0):
                raise Refused(
                    f"{self._source.lines.name} is no good copy: its last line says"
                    f" {expected.get(kind, 0)} of kind {kind!r}, and it has"
                    f" {self._added[kind]} different ones."
                )

    def _gone(self) -> Refused:
        return Refused(
            f"Crawl {self._keys.crawl!r} was deleted while it was imported: import it"
            " again."
        )

    def _remove(self, reason: BaseException) -> None:
        """Take back what was written; what cannot be taken back is told."""
        steps = OperatorSteps(self._keys).delete(import_token=self._token)
        try:
            run_steps(self._client, steps)
        except RedisStateError as error:
            raise type(error)(
                f"{str(reason) or type(reason).__name__} (What was imported of crawl"
                f" {self._keys.crawl!r} may still be there, and is of no use: 'delete'"
                " it when the server is back.)"
            ) from None

    def _notes(self) -> list[str]:
        notes = []
        if self._source.changed:
            notes.append(
                "the crawl changed while it was exported: the copy may lack what was"
                " stored or moved meanwhile"
            )
        if self._kept_sessions:
            notes.append(
                f"{self._kept_sessions} sessions were left out: there is one, or their"
                " time is over"
            )
        return notes


def _size(piece: Piece) -> int:
    """Bytes, about."""
    total = 0
    for value in piece.record:
        values = value if isinstance(value, list) else [value]
        total += sum(len(one) if isinstance(one, bytes) else 8 for one in values)
    return total
