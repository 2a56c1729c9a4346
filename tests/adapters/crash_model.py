"""Crashes, at every point of a recorded crawl, and what is then left to go on with.

The model plays a log of :mod:`tests.adapters.recorder` as a worker and a server would:
stored requests are *owed* until their page is acked, and the server may refuse any
request, which then stays with the worker, who withholds the ack of its page. A crash
takes what the worker alone knows. What is owed is then handed out again, runs again
and makes its requests again, of which the server drops those it has seen.

A *unit* is a piece of work: one URL if it is filtered, else one single request. Sets
of units are integers, one bit each. ``start()`` is a unit too, owed until it is seeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tests.adapters.recorder import OUTSIDE, START

Operation: TypeAlias = dict[str, Any]

START_UNIT = 1
FORGETTING = ("end", "seeded")
"""Operations by which the server comes to owe less; the others cannot lose a thing."""


class LostWorkError(AssertionError):
    """After a crash, a request that was made, or was to be made, is gone."""


@dataclass(slots=True)
class State:
    """Sets of units, as far as the log was played."""

    owed: int = START_UNIT
    """On the server: waiting or leased."""
    running: int = START_UNIT
    finished: int = 0
    seen: int = 0
    withheld: int = 0
    """Pages whose worker has a refused request of theirs."""
    parked: int = 0
    """Refused requests that no page made, as far as their worker knows."""
    outside: int = 0
    """Stored requests that no page made, as far as their worker knows."""


class CrashModel:
    """Plays one log.

    Acks are withheld by what the scheduler believed to be the page of a request; what
    a page makes when it runs again is found by who really made it.
    """

    def __init__(
        self,
        log: Iterable[Operation],
        withheld_ends: tuple[str, ...] = ("done", "bury"),
    ) -> None:
        self.log = [op for op in log if op["op"] in ("take", "store", *FORGETTING)]
        self.names: dict[int, str] = {START_UNIT: START}
        """Names of the units."""
        self._withheld_ends = withheld_ends
        self._units: dict[int | str | None, int] = {START: START_UNIT, None: 0}
        self._children: defaultdict[int, int] = defaultdict(int)
        self._makers = 0
        self._learn()
        self._progeny = {unit: self._made_again(unit, ~0) | unit for unit in self.names}

    def _learn(self) -> None:
        """Find the units and which of them make which, by the whole log."""
        by_key: dict[str, int] = {}
        last: dict[str, int] = {START: START_UNIT, OUTSIDE: 0}
        for op in self.log:
            if op["op"] == "take":
                last[op["name"]] = self._units[op["id"]]
            elif op["op"] == "store":
                new = 1 << len(self.names)
                unit = by_key.setdefault(op["key"], new) if op["key"] else new
                self.names.setdefault(unit, op["name"])
                self._units[op["id"]] = unit
                if maker := last[op["maker"]]:
                    self._children[maker] |= unit
                    self._makers |= maker

    # Playing

    def play(self, state: State, at: int, refused: bool = False) -> None:
        """Apply the operation at a position of the log; a store may be refused."""
        op = self.log[at]
        unit = self._units[op.get("id", START)]
        match op["op"]:
            case "take":
                state.running |= unit & state.owed
                state.withheld &= ~unit
            case "store":
                self._store(state, op, unit, refused)
            case _:
                self._end(state, op.get("kind", "done"), unit & state.running)

    def _store(self, state: State, op: Operation, unit: int, refused: bool) -> None:
        page = self._units[op["page"]]
        never_made = page and not page & state.running
        if never_made or (op["key"] and unit & state.seen):
            return
        if refused:
            state.withheld |= page
            state.parked |= 0 if page else unit
            return
        state.owed |= unit
        state.seen |= unit
        state.outside |= 0 if page else unit

    def _end(self, state: State, kind: str, unit: int) -> None:
        state.running &= ~unit
        if kind in ("fail", "release"):
            return  # owed as before
        if kind in self._withheld_ends:
            unit &= ~state.withheld
        state.owed &= ~unit
        state.finished |= unit

    # Crashing

    def check(self) -> int:
        """Crash everywhere, and raise LostWorkError if that loses something.

        That is, after every operation with nothing refused, with everything refused,
        and with each single request refused; and with each two of them refused, after
        the operations by which something could be lost. Returns the number of crashes.
        """
        crashes = self._check_alike(refused=False) + self._check_alike(refused=True)
        state = State()
        for at, op in enumerate(self.log):
            if op["op"] == "store":
                crashes += self._check_one_refused(replace(state), at)
            self.play(state, at)
        return crashes

    def _check_alike(self, refused: bool) -> int:
        state = State()
        for at in range(len(self.log)):
            self.play(state, at, refused)
            self.crash(state)
        return len(self.log)

    def _check_one_refused(self, state: State, first: int) -> int:
        if not self._refuse(state, first):
            return 0
        crashes = 0
        for at in range(first + 1, len(self.log)):
            if self.log[at]["op"] == "store":
                crashes += self._check_two_refused(replace(state), at)
            self.play(state, at)
            self.crash(state)
            crashes += 1
        return crashes

    def _check_two_refused(self, state: State, second: int) -> int:
        if not self._refuse(state, second):
            return 0
        crashes = 0
        for at in range(second + 1, len(self.log)):
            self.play(state, at)
            if self.log[at]["op"] in FORGETTING:
                self.crash(state)
                crashes += 1
        return crashes

    def _refuse(self, state: State, at: int) -> bool:
        """Refuse the request at a position; False if it makes no difference."""
        otherwise = replace(state)
        self.play(otherwise, at)
        self.play(state, at, refused=True)
        return state != otherwise

    def crash(self, state: State) -> None:
        """Raise LostWorkError if a crash in ``state`` loses what was promised.

        Promised is all that comes from ``start()`` and from what was stored; not what
        no page made and the server has not got.
        """
        promised = self._progeny[START_UNIT]
        for unit in _each(state.outside):
            promised |= self._progeny[unit]
        missing = promised & ~state.finished & ~state.owed
        if missing:
            missing &= ~self._made_again(state.owed, missing)
        if missing:
            raise LostWorkError([self.names[unit] for unit in _each(missing)])
        if not state.owed and not state.parked:  # other workers may call it finished
            unfinished = (promised | state.outside) & ~state.finished
            assert not unfinished, [self.names[unit] for unit in _each(unfinished)]

    def _made_again(self, units: int, within: int) -> int:
        """What comes of ``units`` when they run again, by way of ``within`` only."""
        found, new = 0, units
        while new:
            made = 0
            for unit in _each(new & self._makers):
                made |= self._children[unit]
            new = made & within & ~found
            found |= new
        return found


def _each(units: int) -> Iterator[int]:
    while units:
        unit = units & -units
        yield unit
        units ^= unit
