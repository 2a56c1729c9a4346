"""The renewal of a session, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_redis_state.commands.output import count, when

if TYPE_CHECKING:
    from scrapy_redis_state.store.sessions import Session, SessionInfo

_WHY = {
    "failed": "renew() failed",
    "died": "the worker that renewed it died",
    "invalid": "no page was good with it",
}
"""What the last failure was."""


def renewal_figures(session: Session | SessionInfo) -> dict[str, Any] | None:
    """The renewal of a session for ``--json``; None: there is nothing to tell.

    ``state`` is ``running``, ``waiting`` (for another attempt), ``given_up``, or
    ``unproven`` (it was renewed, and no page was good with it yet).
    """
    renewal = session.renewal
    if renewal is None:
        return {"state": "unproven"} if session.unproven else None
    state = "waiting"
    if renewal.holder:
        state = "running"
    elif renewal.failed:
        state = "given_up"
    return {
        "state": state,
        "worker": renewal.holder or None,
        "since": renewal.since or None,
        "retry_at": renewal.retry_at or None,
        "failures": renewal.failures,
        "why": renewal.why or None,
    }


def renewal_text(figures: dict[str, Any] | None) -> str | None:
    """The same in one line."""
    if figures is None:
        return None
    state = figures["state"]
    if state == "unproven":
        return "done, and no page was good with it yet"
    failures = count(figures["failures"], "failure")
    if state == "running":
        since = f" since {when(figures['since'])}" if figures["since"] else ""
        text = f"under way by worker {figures['worker']}{since}"
    elif state == "given_up":
        why = _WHY.get(figures["why"])
        return f"given up after {failures}" + (f", the last: {why}" if why else "")
    else:
        at = figures["retry_at"]
        text = f"to be tried again{f' after {when(at)}' if at else ''}"
    return f"{text}, {failures}" if figures["failures"] else text
