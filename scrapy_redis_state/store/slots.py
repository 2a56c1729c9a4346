"""Which node of a Redis Cluster has what; no connection is made here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis import exceptions
from redis.crc import key_slot

from scrapy_redis_state.store.call import as_text
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.url import Node

_KEYLESS = frozenset(
    (
        *("ACL", "ASKING", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE"),
        *("ECHO", "INFO", "PING", "ROLE", "SCAN", "SCRIPT", "TIME", "WAIT"),
    )
)
_COUNTED = frozenset(("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"))
"""Number of keys in the third place, then the keys."""


_REDIRECTION = r"(?:^|error: \W{0,2})(ASK|MOVED) ([0-9]+) ([^\s']*):([0-9]+)"
"""At the beginning of an error, or of what redis-py quotes in one of a pipeline."""


class Hop(NamedTuple):
    """Where a command is sent next."""

    node: Node
    asking: bool = False
    """The node is just getting the slot, and must be told that we know."""


class Redirection(NamedTuple):
    """Another node than the one that was asked has the slot."""

    slot: int
    node: Node
    asking: bool


def redirection(error: object) -> Redirection | None:
    """What an error says about who has a slot; None if it is about something else."""
    if isinstance(error, exceptions.AskError):
        asking = not isinstance(error, exceptions.MovedError)
        return Redirection(error.slot_id, Node(error.host, error.port), asking)
    # redis-py before 6 has those classes for its own cluster clients only.
    found = re.search(_REDIRECTION, str(error))
    if found is None or not isinstance(error, exceptions.ResponseError):
        return None
    node = Node(found[3], int(found[4]))
    return Redirection(int(found[2]), node, found[1] == "ASK")


class SlotMap:
    """Which node has which slot, as far as is known."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        """All that are known, the most promising first."""
        self.is_known = False
        self._ranges: list[tuple[int, int, Node]] = []
        self._moved: dict[int, Node] = {}

    @property
    def owners(self) -> list[Node]:
        """The nodes that have slots."""
        return list(dict.fromkeys(node for _, _, node in self._ranges))

    def learn(self, reply: Sequence[Any], asked: Node) -> bool:
        """Take in an answer to CLUSTER SLOTS; False if there is nothing in it."""
        found = [
            (first, last, [_read_node(node, asked) for node in nodes])
            for first, last, *nodes in reply
        ]
        self._ranges = [(first, last, nodes[0]) for first, last, nodes in found]
        self._moved.clear()
        self.is_known = bool(found)
        for _, _, nodes in found:
            self.nodes += [node for node in nodes if node not in self.nodes]
        return self.is_known

    def first_hop(self, slot: int | None) -> Hop:
        """Where to send a command; None: one that any node can answer."""
        if slot is None:
            return Hop(self.nodes[0])
        if slot in self._moved:
            return Hop(self._moved[slot])
        for first, last, node in self._ranges:
            if first <= slot <= last:
                return Hop(node)
        self.is_known = False
        raise exceptions.ClusterDownError("CLUSTERDOWN no node has the crawl's slot")

    def next_hop(self, error: exceptions.ResponseError, hop: Hop) -> Hop:
        """Where a node says that a command belongs.

        :raises ResponseError: the error itself, if it says nothing about that
        """
        found = redirection(error)
        if found is None:
            if "CLUSTERDOWN" in str(error):
                self.failed(hop.node)
            raise error
        node = Node(found.node.host or hop.node.host, found.node.port)
        if node not in self.nodes:
            self.nodes.append(node)
        if not found.asking:
            self._moved[found.slot] = node
        return Hop(node, asking=found.asking)

    def failed(self, node: Node) -> None:
        """It gave no answer: look anew who has what, and ask others first."""
        self.is_known = False
        if node in self.nodes:
            self.nodes.remove(node)
            self.nodes.append(node)


def slot_of(args: Sequence[Any]) -> int | None:
    """The slot of a command's first key; None for a command without one."""
    name = as_text(args[0]).upper().split()[0]
    if name in _KEYLESS:
        return None
    key: Any = args[1]
    if name in _COUNTED:
        if not int(args[2]):
            return None
        key = args[3]
    return key_slot(key.encode() if isinstance(key, str) else bytes(key))


def refusal_of(error: exceptions.ResponseError) -> Exception:
    """What it means that a node does not say who has which slot."""
    if "cluster support disabled" in str(error):
        return Refused(
            "this server is not part of a cluster: use redis:// (rediss:// for TLS)"
        )
    return error


def _read_node(node: Sequence[Any], asked: Node) -> Node:
    # Without a host, or with "?", the node does not know how it is reached.
    host = as_text(node[0] or b"")
    return Node(asked.host if host in ("", "?") else host, int(node[1]))
