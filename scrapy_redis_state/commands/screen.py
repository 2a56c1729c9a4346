"""A crawl as a screen of a terminal, drawn with rich.

Texts are put together as :class:`~rich.text.Text`, never as markup: some of them were
written by web sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scrapy_redis_state.commands.output import duration, per_sec, printable, size
from scrapy_redis_state.commands.sparkline import sparkline

if TYPE_CHECKING:
    from scrapy_redis_state.commands.sight import Sight

BAR = "━"
NARROW = 76
"""Columns below which some of the table of workers is left out."""
SPARKS = 30
"""As many as there are samples."""
LEAST_ROWS = 3
"""Workers that are shown, however little room there is."""
_AROUND_WORKERS = 4
"""Lines of the table of workers that are no workers."""

STATES = {"running": "green", "paused": "yellow", "finished": "blue"}


def screen(sight: Sight, console: Console) -> RenderableType:
    """All of it, in the size of a terminal."""
    width, height = console.size
    parts: list[RenderableType] = [_crawl(sight, width)]
    if sight.trouble:
        parts.append(_trouble(sight.trouble))
    figures = sight.figures
    if figures is not None:
        parts.append(Padding(_memory(figures), (0, 1)))
        parts += [_warning(text) for text in figures["warnings"]]
        taken = sum(len(console.render_lines(part, pad=False)) for part in parts)
        room = max(LEAST_ROWS, height - taken - _AROUND_WORKERS)
        parts.append(_workers(figures["worker_list"], room, width))
    return Group(*parts)


# --- the crawl -----------------------------------------------------------------------


def _crawl(sight: Sight, width: int) -> Panel:
    figures = sight.figures
    title = Text()
    title.append(printable(sight.name), "bold default")
    if figures is None:
        body: RenderableType = Text("...", "dim")
        style = "dim"
    else:
        style = STATES.get(figures["state"], "white")
        title.append("  ")
        title.append(figures["state"], f"bold {style}")
        title.append(f"  generation {figures['generation']}", "default not bold dim")
        title.append_text(_start(figures["seeding"]))
        body = Group(_progress(sight, width), _rates(sight, width), _places(figures))
    server = Text(f"{printable(sight.server)}  {sight.at:%H:%M:%S}", "default dim")
    return Panel(
        body,
        title=title,
        title_align="left",
        subtitle=server,
        subtitle_align="right",
        border_style="red" if sight.trouble else style,
        box=box.ROUNDED,
        padding=(0, 1),
        width=width,
    )


def _progress(sight: Sight, width: int) -> RenderableType:
    """What is done, what runs, and what waits, of all that is known."""
    figures = sight.figures or {}
    done, running, known = figures["done"], figures["in_flight"], sight.known
    text = Text()
    text.append(f"{done:,}", "bold green")
    text.append(f" of {known:,}", "dim")
    if width >= NARROW:
        text.append(" known pages are done", "dim")
    if known:
        text.append(f"  {done / known:.0%}", "bold")
    eta = Text()
    if figures["eta_secs"] is not None:
        eta.append("ETA ", "dim")
        eta.append(duration(figures["eta_secs"]), "bold")
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(text, eta)
    return Group(_bar(width - 4, done, running, known), line)


def _bar(width: int, done: int, running: int, known: int) -> Text:
    of_done = width * done // known if known else 0
    # However few they are, that something runs is to be seen.
    of_running = max(width * running // known, 1) if running else 0
    of_running = min(of_running, width - of_done)
    bar = Text(BAR * of_done, "green", no_wrap=True, overflow="crop")
    bar.append(BAR * of_running, "yellow")
    bar.append(BAR * (width - of_done - of_running), "bright_black")
    return bar


def _rates(sight: Sight, width: int) -> RenderableType:
    figures = sight.figures or {}
    sparks = min(SPARKS, max(5, width - 32))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(justify="right", min_width=10, style="bold")
    grid.add_column(width=sparks, no_wrap=True)
    grid.add_column(style="dim", no_wrap=True, overflow="ellipsis")
    found = f"{per_sec(figures['stored_rate'])} are found"
    grid.add_row(
        "pages",
        per_sec(figures["rate"]),
        Text(sparkline(sight.rates, sparks).rjust(sparks), "cyan"),
        found if width >= NARROW and figures["stored_rate"] is not None else "",
    )
    grid.add_row(
        "left",
        f"{sight.left:,}",
        Text(sparkline(sight.lefts, sparks).rjust(sparks), "magenta"),
        "over five minutes" if width >= NARROW else "",
    )
    return grid


def _places(figures: dict[str, Any]) -> Text:
    text = Text()

    def add(name: str, value: str, style: str = "bold") -> None:
        if text:
            text.append("   ")
        text.append(f"{name} ", "dim")
        text.append(value, style)

    add("pending", f"{figures['pending']:,}")
    oldest = figures["oldest_lease_secs"]
    flight = f"{figures['in_flight']:,}"
    add("in flight", flight, "bold yellow" if figures["in_flight"] else "bold")
    if oldest is not None:
        text.append(f" (oldest {duration(oldest)})", "dim")
    add("delayed", f"{figures['delayed']:,}")
    add("dead", f"{figures['dead']:,}", "bold red" if figures["dead"] else "bold")
    if figures["orphans"]:
        add("orphans", f"{figures['orphans']:,}", "bold yellow")
    if figures["suspects"]:
        add("suspects", f"{figures['suspects']:,}", "bold yellow")
    add("seen", f"{figures['seen']:,}")
    return text


def _start(seeding: str) -> Text:
    """What there is to say of ``start()``, if anything."""
    if seeding == "open":
        return Text("  start() is running", "cyan not bold")
    return Text("  start() failed" if seeding == "failed" else "", "bold red")


def _memory(figures: dict[str, Any]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    total, keys = figures["memory_bytes"], figures["memory_by_key"] or {}
    in_all, most = figures["server_memory_bytes"], figures["server_maxmemory_bytes"]
    if in_all is not None:
        text.append("server ", "dim")
        text.append(size(in_all), "bold")
        text.append(f" of {size(most)}" if most else " (no limit)", "dim")
        text.append(f", {figures['server_policy'] or '?'}   ", "dim")
    if total is not None:
        text.append("crawl ", "dim")
        text.append(size(total), "bold")
        largest = sorted(keys.items(), key=lambda pair: -pair[1])[:4]
        shown = ", ".join(f"{name} {size(used)}" for name, used in largest)
        text.append(f" ({shown})", "dim")
    return text


# --- what is wrong -------------------------------------------------------------------


def _warning(text: str) -> RenderableType:
    return Padding(Text(f"! {printable(text)}", "yellow"), (0, 1))


def _trouble(text: str) -> RenderableType:
    return Padding(Text(printable(text), "bold red"), (0, 1))


# --- workers -------------------------------------------------------------------------


def _workers(workers: list[dict[str, Any]], room: int, width: int) -> RenderableType:
    if not workers:
        return Padding(Text("no workers", "dim"), (0, 1))
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    is_wide = width >= NARROW
    table.add_column("worker", no_wrap=True, min_width=12, ratio=None if is_wide else 1)
    if is_wide:
        table.add_column("host", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("pid", "beat", "held", "oldest", "done", "rate"):
        if is_wide or name not in ("pid", "oldest"):
            table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(workers, key=lambda one: (not one["live"], one["joined"] or 0))
    shown = ordered if len(ordered) <= room else ordered[: room - 1]
    for one in shown:
        table.add_row(*_row(one, is_wide=is_wide), style="" if one["live"] else "dim")
    if len(shown) < len(ordered):
        table.add_row(f"and {len(ordered) - len(shown)} more", style="dim")
    return table


def _row(one: dict[str, Any], *, is_wide: bool) -> Iterator[Text]:
    beat, held, oldest = one["beat_age_secs"], one["held"], one["oldest_lease_secs"]
    live = "green" if one["live"] else "red"
    yield Text(f"{'●' if one['live'] else '○'} ", live).append(one["worker"], "default")
    if is_wide:
        yield Text(printable(str(one["host"] or "?")))
        yield Text(str(one["pid"] or "?"))
    yield Text("?" if beat is None else duration(beat), "" if one["live"] else "red")
    yield Text("-" if held is None else f"{held:,}")
    if is_wide:
        yield Text("-" if oldest is None else duration(oldest))
    yield Text(f"{one['done']:,}")
    yield Text(per_sec(one["rate"]), "cyan")
