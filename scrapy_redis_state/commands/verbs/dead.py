"""``dead``: requests that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import (
    complain,
    count,
    say,
    say_json,
    say_pairs,
    say_table,
    when,
)
from scrapy_redis_state.commands.parsing import regex
from scrapy_redis_state.commands.secrets import without_secrets
from scrapy_redis_state.store.errors import Refused

if TYPE_CHECKING:
    import argparse

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store import CrawlState
    from scrapy_redis_state.store.dead import DeadLetter


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    group = verbs.group(
        "dead", "look at requests that were given up, or try them again"
    )
    parser = group.add("list", list_dead, "list them, oldest first", reads=True)
    _add_filter(parser)
    parser = group.add("show", show, "show all that is kept of some", reads=True)
    parser.add_argument("ids", metavar="ID", nargs="+", help="as listed")
    parser.add_argument(
        "--reveal", action="store_true", help="also cookies and passwords in them"
    )
    parser = group.add("requeue", requeue, "have them tried again")
    _add_choice(parser)
    parser = group.add("drop", drop, "forget them")
    _add_choice(parser)


def _add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reason", metavar="TEXT", default="", help="a part of why they were given up"
    )
    parser.add_argument(
        "--match", metavar="REGEX", type=regex, help="found in their URLs"
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="as listed")
    _add_filter(parser)
    parser.add_argument("--all", action="store_true", help="all that there are")


def list_dead(args: argparse.Namespace, place: Place) -> int | None:
    """List them; none is no error."""
    with place.state() as state:
        _refuse_nothing(state, place)
        letters = state.dead_letters(reason=args.reason, match=args.match)
    if args.json:
        say_json([_line(letter) for letter in letters])
    elif letters:
        say_table(
            ("id", "given up", "deliveries", "priority", "url", "reason"),
            [
                (
                    one.id,
                    when(one.given_up_at),
                    one.deliveries,
                    one.priority,
                    one.url or "?",
                    _first_line(one.reason),
                )
                for one in letters
            ],
        )
    else:
        say("no dead letters")
    return None


def show(args: argparse.Namespace, place: Place) -> int | None:
    """Show them; 1 if one is not there."""
    with place.state() as state:
        _refuse_nothing(state, place)
        letters = state.dead_letters(ids=args.ids)
    found = [_line(one) | {"request": _request(one, args.reveal)} for one in letters]
    if args.json:
        say_json(found)
    else:
        for number, one in enumerate(found):
            if number:
                say()
            _show(one)
    return _missing(args.ids, letters)


def requeue(args: argparse.Namespace, place: Place) -> int | None:
    """Put them back; 1 if one is not there, or can never be run."""
    wanted = _wanted(args)
    with place.state() as state:
        _refuse_nothing(state, place)
        letters = state.dead_letters(ids=args.ids) if args.ids else []
        done = state.requeue_dead(**wanted)
    for problem in done.skipped:
        complain(f"stays a dead letter: {problem}")
    say(f"{count(done.count, 'request')} put back")
    return _missing(args.ids, letters) or (REFUSED if done.skipped else None)


def drop(args: argparse.Namespace, place: Place) -> int | None:
    """Forget them; 1 if one is not there."""
    wanted = _wanted(args)
    with place.state() as state:
        _refuse_nothing(state, place)
        letters = state.dead_letters(ids=args.ids) if args.ids else []
        dropped = state.drop_dead(**wanted)
    say(f"{count(dropped, 'dead letter')} forgotten")
    return _missing(args.ids, letters)


def _wanted(args: argparse.Namespace) -> dict[str, Any]:
    if not (args.ids or args.reason or args.match or args.all):
        raise UsageError("which? Give ids, --reason, --match, or --all")
    return {"ids": args.ids, "reason": args.reason, "match": args.match}


def _refuse_nothing(state: CrawlState, place: Place) -> None:
    if not state.status().generation:
        raise place.missing()


def _missing(ids: list[str], letters: list[DeadLetter]) -> int | None:
    missing = sorted(set(ids) - {letter.id for letter in letters})
    if missing:
        raise Refused(f"no dead letter: {', '.join(missing)}")
    return None


def _line(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "given_up_at": letter.given_up_at,
        "deliveries": letter.deliveries,
        "priority": letter.priority,
        "url": letter.url,
        "worker": letter.worker,
        "reason": letter.reason,
    }


def _request(letter: DeadLetter, reveal: bool) -> dict[str, Any]:
    fields = letter.fields
    return fields if reveal else without_secrets(fields)


def _show(letter: dict[str, Any]) -> None:
    request, reason = letter.pop("request"), letter.pop("reason")
    letter["given_up_at"] = when(letter["given_up_at"])
    say_pairs(letter.items())
    say_pairs((f"request.{name}", value) for name, value in request.items())
    say("reason:")
    for line in reason.splitlines():
        say(f"  {line}")


def _first_line(reason: str) -> str:
    lines = reason.strip().splitlines() or [""]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]
