"""``status``: a crawl at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.figures import is_over, workers_at_work
from scrapy_redis_state.commands.output import (
    complain,
    duration,
    per_sec,
    say,
    say_json,
    say_pairs,
    say_table,
    size,
    when,
)
from scrapy_redis_state.commands.overview import look
from scrapy_redis_state.commands.parsing import at_least

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.status import StatusReply


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    parser = verbs.add("status", status, "show how a crawl stands", reads=True)
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit status 1 if there is work and no live worker does it",
    )
    parser.add_argument(
        "--max-silence",
        type=at_least(1),
        metavar="SECS",
        help="with --check: also if no worker made a call for so long (a live one does"
        " each second)",
    )


def status(args: argparse.Namespace, place: Place) -> int | None:
    """Show it; 1 if there is none."""
    with place.crawl_client() as client:
        overview = look(client, place.keys)
    if not overview.status.generation:
        raise place.missing()
    figures = overview.figures(place.config.url)
    if args.json:
        say_json(figures)
    else:
        _show(figures)
    problem = _problem(overview.status, args.max_silence) if args.check else None
    if problem:
        complain(f"crawl {place.config.crawl_id!r} {problem}")
        return REFUSED
    return None


def _problem(reply: StatusReply, max_silence: int | None) -> str | None:
    """What a probe is told."""
    if is_over(reply):
        return None
    if not workers_at_work(reply):
        return "has work, and no live worker"
    if max_silence is not None and reply.silence_ms > 1000 * max_silence:
        return f"is stalled: no worker made a call for {reply.silence_ms / 1000:.0f} s"
    return None


def _show(figures: dict[str, Any]) -> None:
    workers, warnings = figures.pop("worker_list"), figures.pop("warnings")
    memory = figures.pop("memory_by_key") or {}
    say_pairs(
        (name, _shown(name, value)) for name, value in figures.items() if value != ""
    )
    if memory:
        say()
        ordered = sorted(memory.items(), key=lambda pair: -pair[1])
        say_table(("key", "memory"), [(name, size(used)) for name, used in ordered])
    if workers:
        say()
        say_table(WORKER_HEADER, [worker_row(one) for one in workers])
    for warning in warnings:
        say()
        say(f"warning: {warning}")


WORKER_HEADER = (
    "worker", "host", "pid", "joined", "last beat", "held", "oldest", "done", "rate",
)  # fmt: skip


def worker_row(one: dict[str, Any]) -> Sequence[object]:
    """A worker as a row of a table."""
    beat = one["beat_age_secs"]
    return (
        one["worker"],
        one["host"] or "?",
        one["pid"] or "?",
        when(one["joined"]) if one["joined"] else "?",
        "?" if beat is None else f"{duration(beat)} ago",
        "-" if one["held"] is None else one["held"],
        _duration(one["oldest_lease_secs"]),
        f"{one['done']:,}",
        per_sec(one["rate"]),
    )


def _duration(secs: float | None) -> str:
    return "-" if secs is None else duration(secs)


_TEXTS = {
    "expected_lost": "pages that the Bloom filter took for seen ones",
    "suspects": "that may have killed workers; handed out alone",
    "orphans": "in flight, and their worker is dead or unknown",
}
_FORMS: dict[str, Callable[[Any], str]] = {
    "rate": lambda value: f"{per_sec(value)}  (pages, over the last minute)",
    "stored_rate": per_sec,
    "eta_secs": duration,
    "silence_secs": duration,
    "oldest_lease_secs": duration,
    "memory_bytes": size,
    "server_memory_bytes": size,
    "server_maxmemory_bytes": size,
    "seed_error": lambda value: value.splitlines()[0],
}


def _shown(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name in _FORMS:
        return _FORMS[name](value)
    text = f"{value:,}" if isinstance(value, int | float) else str(value)
    return f"{text}  ({_TEXTS[name]})" if name in _TEXTS and value else text
