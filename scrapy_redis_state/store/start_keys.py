"""Start keys: lists, sets and sorted sets whose messages are requests to come.

Other programs fill them. A worker looks at some messages, makes requests of them, and
then has both done in one step: the message leaves the key, and its requests are stored.
Until then it stays where it is, whatever happens to the worker; and of workers that
have made something of the same message, the first stores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.crc import key_slot

from scrapy_redis_state.store.call import Call, as_text, load_script, pack
from scrapy_redis_state.store.cluster import ClusterClient
from scrapy_redis_state.store.messages import Answer
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_facts import Finding
from scrapy_redis_state.store.translate import translated
from scrapy_redis_state.store.wire import named_operation, read_answers

if TYPE_CHECKING:
    from redis import Redis

    from scrapy_redis_state.store.keys import CrawlKeys
    from scrapy_redis_state.store.messages import Operation

TYPES = ("list", "set", "zset")
"""What a start key may be."""

DEPTH = 1000
"""How many messages may come before one that was looked at, since then, for it to be
found: a look through a whole list would hold up everybody."""


MESSAGE_META = "message"
"""Where the meta of a dead letter has the message that no request was made of."""


class Message(NamedTuple):
    """What somebody put into a start key."""

    key: str
    text: bytes
    score: float | None = None
    """Of a sorted set; highest first."""


class Move(NamedTuple):
    """A message, and what is to be stored in its place."""

    message: Message
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class TakeReply:
    """Answer to a take.

    ``status``: ok; epoch (nothing was done, send it again with that epoch); over (the
    generation is); full (no room on the server); or wrong_type (``wrong`` is a key, its
    type, and the type expected). Nothing is done but with ok.
    """

    status: str
    epoch: int
    answers: tuple[tuple[Answer, ...] | None, ...] = ()
    """For each message those of its operations; None: it was not there any more."""
    wrong: tuple[str, ...] = ()


def look(start_keys: Sequence[str], most: int) -> Call[list[Message]]:
    """The messages that are next, all of one key: the first that has any."""

    def read(reply: Sequence[Any]) -> list[Message]:
        number, flat = reply
        return [
            Message(start_keys[number - 1], text, float(score) if score else None)
            for text, score in zip(flat[::2], flat[1::2], strict=True)
        ]

    return Call(load_script("start_look"), list(start_keys), [most], read)


def take(
    keys: CrawlKeys, epoch: int, token: str, moves: Sequence[Move]
) -> Call[TakeReply]:
    """Move messages into the crawl.

    :param token: of the generation that they are for
    :param moves: of messages that are all of one key
    """

    def read(reply: Sequence[Any]) -> TakeReply:
        status, current, answers = reply
        if status == b"wrong_type":
            return TakeReply("wrong_type", current, wrong=tuple(map(as_text, answers)))
        return TakeReply(as_text(status), current, tuple(map(_read_answers, answers)))

    seen = keys.of_seen_set(epoch)
    placed = iter(seen.on_the_wire([op for move in moves for op in move.operations]))
    packed = [
        (
            move.message.text,
            [named_operation(op) for op in islice(placed, len(move.operations))],
        )
        for move in moves
    ]
    all_keys = [*keys.for_script(epoch), *seen.keys, moves[0].message.key]
    return Call(
        load_script("start_take"),
        all_keys,
        [epoch, token, pack(packed), DEPTH + len(moves)],
        read,
    )


def check(start_keys: Sequence[str]) -> Call[dict[str, str]]:
    """Ask whether the keys can be used; the types of those that there are."""

    def read(reply: Sequence[Any]) -> dict[str, str]:
        words = list(map(as_text, reply))
        return dict(zip(words[::2], words[1::2], strict=True))

    return Call(load_script("start_check"), list(start_keys), [], read)


def check_start_keys(
    client: Redis, keys: CrawlKeys, start_keys: Sequence[str]
) -> list[Finding]:
    """What is wrong with the start keys of a crawl.

    :raises Refused: if the user may not use them
    """
    if not start_keys:
        return []
    own = set(keys.for_script(1))
    for key in start_keys:
        if key in own:
            return [_fatal(key, "is a key of the crawl itself: name another")]
    if isinstance(client, ClusterClient):
        slot = key_slot(keys.named("crawl").encode())
        for key in start_keys:
            if key_slot(key.encode()) != slot:
                return [_fatal(key, _elsewhere(keys))]
    with translated():
        types = run(client, check(start_keys))
    return [
        _fatal(key, f"is a {kind}, not a list, a set or a sorted set: name another")
        for key, kind in types.items()
        if kind not in TYPES
    ]


def _elsewhere(keys: CrawlKeys) -> str:
    return (
        "may be on another node of the cluster than the crawl, where no message can be"
        " taken and stored in one step: put the crawl id in braces into the name, such"
        f" as 'start_urls:{{{keys.crawl}}}'"
    )


def _fatal(key: str, problem: str) -> Finding:
    return Finding(f"the start key {key!r} {problem}", fatal=True)


def _read_answers(text: bytes | str) -> tuple[Answer, ...] | None:
    return None if as_text(text) == "-" else read_answers(text)
