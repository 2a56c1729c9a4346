"""The balance of a crawl as text."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from statistics import median
from typing import TYPE_CHECKING

from runner.outcome import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.outcome import Outcome


SENT_AWAY = (HTTPStatus.FOUND, HTTPStatus.FORBIDDEN)


def render(outcome: Outcome) -> str:
    """Return the summary: the balance, the workers, and the order of delivery.

    Where pages need a session, that has the place of the order, which is none.
    """
    last = _session if outcome.needs_session else _order
    parts = (_balance(outcome), _workers(outcome), last(outcome))
    return "\n\n".join(map(table, parts))


def _balance(outcome: Outcome) -> list[Sequence[object]]:
    asked = pages(outcome.hits)
    by_status = sorted(Counter(hit.status for hit in asked).items())
    delivered = len(outcome.catalog.products()) - len(outcome.lost())
    return [
        ("pages", len(asked), ", ".join(f"{n} x {s}" for s, n in by_status)),
        ("fetched twice", outcome.fetched_again(), "pages that were answered with 200"),
        ("items", len(outcome.items()), f"of {delivered} products, by all workers"),
        ("held", outcome.held, "pages, by workers when they died"),
        (
            "redelivered",
            outcome.redelivered(),
            "times, a page was given out that had lost its worker",
        ),
        ("repeated", outcome.repeated(), "items, at most as many as pages were held"),
        ("given up", outcome.given_up, "requests that failed too often"),
        ("lost", len(outcome.lost()), "products on the site that no worker wrote"),
    ]


def _workers(outcome: Outcome) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = [
        ("worker", "pid", "items", "redelivered", "what happened", "closed")
    ]
    for worker in outcome.workers:
        count = len(worker.items)
        about = (worker.role, worker.closed)
        rows.append((worker.number, worker.pid, count, worker.redelivered, *about))
    return rows


def _session(outcome: Outcome) -> list[Sequence[object]]:
    refused = sum(hit.status in SENT_AWAY for hit in pages(outcome.hits))
    agents = ", ".join(sorted({hit.agent for hit in outcome.solved()}))
    return [
        ("logins", len(outcome.logins()), "for all workers, as the site counted them"),
        ("challenges solved", len(outcome.solved()), f"as {agents}"),
        ("sent away", refused, "pages, to the login or the challenge"),
    ]


def _order(outcome: Outcome) -> list[Sequence[object]]:
    catalog = outcome.catalog
    flash, recent = set(catalog.flash_sales()), set(catalog.recently_changed())
    others = set(catalog.products()) - flash - recent
    rows: list[Sequence[object]] = [("products", "median place in delivery")]
    for name, products in (
        ("flash sales", flash),
        ("recently changed", recent),
        ("all others", others),
    ):
        places = outcome.places(products)
        rows.append((name, round(median(places)) if places else 0))
    return rows


def table(rows: Sequence[Sequence[object]]) -> str:
    """Align the columns: numbers to the right, text to the left."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(str(cell)) for cell in column) for column in columns]
    numeric = [isinstance(column[-1], int) for column in columns]
    lines = []
    for row in rows:
        cells = (
            str(cell).rjust(width) if right else str(cell).ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
