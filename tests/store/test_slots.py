"""Which node of a cluster is asked, by what nodes say."""

from __future__ import annotations

import pytest
from redis import exceptions
from redis.crc import key_slot

from scrapy_redis_state.store.slots import Hop, SlotMap, slot_of
from scrapy_redis_state.store.url import Node

A, B, C = Node("a", 1), Node("b", 2), Node("c", 3)
MOVED = exceptions.ResponseError("MOVED 7 c:3")


def known(*ranges: list[object], asked: Node = A) -> SlotMap:
    slots = SlotMap([A])
    slots.learn(ranges, asked)
    return slots


@pytest.mark.parametrize(
    "command",
    [
        ("GET", "{crawl}key"),
        ("get", b"{crawl}"),
        ("EVALSHA", "sha", 2, "{crawl}", "other"),
        ("EVAL", "return 1", "1", "key:{crawl}:1", "argument"),
    ],
)
def test_the_first_key_counts(command: tuple[object, ...]) -> None:
    """Of scripts it stands behind the number of keys."""
    assert slot_of(command) == key_slot(b"crawl")


@pytest.mark.parametrize(
    "command",
    [("PING",), ("CONFIG GET", "save"), ("COMMAND INFO", "get"), ("EVAL", "1", 0)],
)
def test_commands_without_a_key_have_no_slot(command: tuple[object, ...]) -> None:
    """Any node can answer them."""
    assert slot_of(command) is None
    assert SlotMap([B, A]).first_hop(None) == Hop(B)


def test_the_owner_is_asked() -> None:
    """Replicas follow it in the list; they are known, and not asked."""
    slots = known([0, 99, [b"a", 1], [b"c", 3]], [100, 200, ["b", 2]])
    assert slots.first_hop(7) == Hop(A)
    assert slots.first_hop(150) == Hop(B)
    assert slots.owners == [A, B]
    assert set(slots.nodes) == {A, B, C}


@pytest.mark.parametrize("host", [b"", None, "?"])
def test_a_node_that_does_not_know_its_host(host: object) -> None:
    """It is where it was asked."""
    assert known([0, 99, [host, 5]]).first_hop(7) == Hop(Node("a", 5))


def test_a_slot_that_nobody_has() -> None:
    """There is no answer now, and nodes are asked anew before the next try."""
    slots = known([0, 99, [b"a", 1]])
    with pytest.raises(exceptions.ClusterDownError):
        slots.first_hop(100)
    assert not slots.is_known


@pytest.mark.parametrize(
    ("error", "asking"),
    [
        (MOVED, False),
        (exceptions.MovedError("7 c:3"), False),
        (exceptions.ResponseError("ASK 7 c:3"), True),
        (exceptions.AskError("7 c:3"), True),
        (
            exceptions.ResponseError(
                "Command # 1 (GET x) of pipeline caused error: ('MOVED 7 c:3',)"
            ),
            False,
        ),
    ],
)
def test_redirections_are_followed(
    error: exceptions.ResponseError, asking: bool
) -> None:
    """As classes of redis-py, or as text where it has none for a plain client."""
    slots = known([0, 99, [b"a", 1]])
    assert slots.next_hop(error, Hop(A)) == Hop(C, asking)
    assert slots.first_hop(7) == (Hop(A) if asking else Hop(C))
    assert slots.first_hop(8) == Hop(A)


def test_a_redirection_without_a_host_stays_at_the_host() -> None:
    """As nodes answer that do not know how they are reached."""
    error = exceptions.ResponseError("MOVED 7 :9")
    assert known([0, 99, [b"a", 1]]).next_hop(error, Hop(A)) == Hop(Node("a", 9))


@pytest.mark.parametrize(
    "text", ["ERR no such command", "WRONGTYPE Operation", "ERR it was MOVED 7 c:3"]
)
def test_other_errors_are_errors(text: str) -> None:
    """Also those that only mention a move."""
    error = exceptions.ResponseError(text)
    with pytest.raises(exceptions.ResponseError) as caught:
        known([0, 99, [b"a", 1]]).next_hop(error, Hop(A))
    assert caught.value is error


def test_a_node_that_fails_is_asked_last() -> None:
    """And who has what is asked anew."""
    slots = known([0, 99, [b"a", 1]], [100, 200, [b"b", 2]])
    slots.next_hop(MOVED, Hop(A))
    slots.failed(A)
    assert slots.nodes == [B, C, A]
    assert not slots.is_known
