"""``session``: cookies and what belongs to them, shared by all crawls of a prefix."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_redis_state.commands.command import REFUSED
from scrapy_redis_state.commands.output import (
    HIDDEN,
    complain,
    count,
    duration,
    say,
    say_json,
    say_pairs,
    say_table,
    when,
)
from scrapy_redis_state.commands.renewal_state import renewal_figures, renewal_text
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.sessions import session_name, site_of
from scrapy_redis_state.store.sessions.formats.files import read_cookie_file
from scrapy_redis_state.store.sessions.formats.netscape import write_cookies_txt
from scrapy_redis_state.store.sessions.formats.playwright import write_storage_state
from scrapy_redis_state.store.sessions.names import session_value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from scrapy_redis_state.commands.parsing import Verbs
    from scrapy_redis_state.commands.place import Place
    from scrapy_redis_state.store.sessions import Cookie, Session, SessionInfo

_STDIN = "-"


def add(verbs: Verbs) -> None:
    """Put it among the verbs."""
    group = verbs.group("session", "look at shared sessions, save them, read them")
    parser = group.add(
        "list", list_sessions, "list them, without values", crawl=False, reads=True
    )
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        default="*",
        help="of sites, such as *.example; *.example:* for sessions with a name",
    )
    parser = group.add(
        "show", show, "show one; it counts as used", crawl=False, reads=True
    )
    _add_session(parser)
    parser.add_argument("--reveal", action="store_true", help="show values too")
    _add_import(group)
    _add_export(group)
    parser = group.add(
        "invalidate", invalidate, "forget one, for all who use it", crawl=False
    )
    _add_session(parser)


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("site", metavar="SITE", help="or any host or URL of it")
    _add_name(parser)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session", metavar="NAME", help="as listed; the site's default one without it"
    )


def _add_import(group: Verbs) -> None:
    parser = group.add(
        "import",
        import_sessions,
        "publish the cookies of a file, in the place of what there was",
        crawl=False,
        begins=True,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a storage state or cookies of Playwright, or a cookies.txt; - is the"
        " input",
    )
    parser.add_argument("--site", metavar="SITE", help="only what belongs to this one")
    _add_name(parser)
    parser.add_argument(
        "--user-agent", metavar="TEXT", help="with which the cookies were got"
    )
    parser.add_argument("--proxy", metavar="LABEL", help="through which, likewise")


def _add_export(group: Verbs) -> None:
    parser = group.add(
        "export", export, "write some, values and all; they count as used", crawl=False
    )
    parser.add_argument("sites", metavar="SITE", nargs="+", help="or any host of it")
    _add_name(parser)
    parser.add_argument(
        "--format",
        choices=("storage-state", "cookies.txt"),
        default="storage-state",
        help="of Playwright (JSON; the default), or Netscape's",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="written so that only its owner can read it; else to the output, which"
        " needs --reveal",
    )
    parser.add_argument(
        "--reveal", action="store_true", help="write values to the output"
    )


def list_sessions(args: argparse.Namespace, place: Place) -> int | None:
    """List them; none is no error."""
    with place.sessions() as sessions:
        found = sessions.list(args.pattern)
    if args.json:
        say_json([_line(info) for info in found])
    elif found:
        say_table(
            ("site", "session", "cookies", "updated", "forgotten", "renewal"),
            [
                (
                    info.site,
                    session_name(info.session) or "-",
                    info.cookies,
                    when(info.updated_at) if info.updated_at else "-",
                    "never" if info.ttl is None else f"in {duration(info.ttl)}",
                    renewal_text(renewal_figures(info)) or "-",
                )
                for info in found
            ],
        )
    else:
        say("no sessions")
    return None


def _line(info: SessionInfo) -> dict[str, Any]:
    return {
        "site": info.site,
        "session": session_name(info.session) or None,
        "cookies": info.cookies,
        "updated_at": info.updated_at,
        "ttl_secs": info.ttl,
        "renewal": renewal_figures(info),
    }


def show(args: argparse.Namespace, place: Place) -> int | None:
    """Show it; 1 if there is none."""
    session = _load(place, args.site, args.session)
    hide = (lambda text: text) if args.reveal else _hidden
    figures = {
        "site": session.site,
        "session": session.name or None,
        "updated_at": session.updated_at,
        "renewal": renewal_figures(session),
        "user_agent": session.identity.user_agent,
        "proxy": hide(session.identity.proxy),
        "headers": {n: hide(text) for n, text in session.identity.headers.items()},
        "tokens": {n: hide(text) for n, text in session.tokens.items()},
        "cookies": [
            _cookie(one) | {"value": hide(one.value)}
            for one in session.cookies.values()
            if not one.is_expired(time.time())
        ],
    }
    if args.json:
        say_json(figures)
    else:
        _show(figures)
    for problem in session.skipped:
        complain(f"not readable: {problem}")
    return None


def _hidden(text: str | None) -> str | None:
    return None if text is None else HIDDEN


def _cookie(cookie: Cookie) -> dict[str, Any]:
    return {
        "name": cookie.name,
        "domain": cookie.domain,
        "path": cookie.path,
        "expires": cookie.expires,
        "secure": cookie.secure,
        "httpOnly": cookie.http_only,
        "sameSite": cookie.same_site,
    }


def _show(figures: dict[str, Any]) -> None:
    cookies = figures.pop("cookies")
    for group in ("headers", "tokens"):
        values: Mapping[str, str] = figures.pop(group)
        figures |= {f"{group[:-1]} {name}": text for name, text in values.items()}
    figures["updated_at"] = when(figures["updated_at"])
    figures["renewal"] = renewal_text(figures["renewal"])
    say_pairs((name, value) for name, value in figures.items() if value is not None)
    if cookies:
        say()
        say_table(
            ("cookie", "value", "domain", "path", "expires", "flags"),
            [
                (
                    one["name"],
                    "-" if one["value"] is None else one["value"],
                    one["domain"],
                    one["path"],
                    "-" if one["expires"] is None else when(one["expires"]),
                    ", ".join(_flags(one)),
                )
                for one in cookies
            ],
        )


def _flags(cookie: Mapping[str, Any]) -> list[str]:
    names = [name for name in ("secure", "httpOnly") if cookie[name]]
    return names + [f"sameSite={cookie['sameSite']}"] * (cookie["sameSite"] is not None)


def import_sessions(args: argparse.Namespace, place: Place) -> int | None:
    """Save them; 1 if there was nothing, or some of it could not be used."""
    path = "/dev/stdin" if args.file == _STDIN else args.file
    found = read_cookie_file(path)
    wanted = found.by_site()
    if args.site is not None:
        site = site_of(args.site)
        wanted = {name: one for name, one in wanted.items() if name == site}
    problems = list(found.skipped)
    with place.sessions() as sessions:
        for site, content in sorted(wanted.items()):
            saved = sessions.save(
                site,
                content.cookies,
                session=session_value(args.session or ""),
                user_agent=args.user_agent,
                proxy=args.proxy,
                tokens={n: text for n, text in content.tokens.items() if text},
            )
            problems += [f"{site}: {problem}" for problem in saved.refused]
            say(f"{site}: {count(len(saved.session.cookies), 'cookie')}")
    for problem in problems:
        complain(f"left out: {problem}")
    if not wanted:
        raise Refused(f"{args.file} has no cookies that could be used.")
    return REFUSED if problems else None


def export(args: argparse.Namespace, place: Place) -> int | None:
    """Write them; 1 if there is no such session."""
    if args.output is None and not args.reveal:
        raise UsageError("where to? Give -o FILE, or --reveal for the output")
    found = [_load(place, site, args.session) for site in args.sites]
    if args.format == "storage-state":
        text = json.dumps(write_storage_state(*found), indent=2) + "\n"
    else:
        text = write_cookies_txt(
            cookie for session in found for cookie in session.cookies.values()
        )
    if args.output is None:
        sys.stdout.write(text)
    else:
        _write_private(Path(args.output), text)
    return None


def _write_private(path: Path, text: str) -> None:
    # Never for a moment readable by others, also where there is such a file already.
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def invalidate(args: argparse.Namespace, place: Place) -> int | None:
    """Forget it; 1 if there is none."""
    _load(place, args.site, args.session)
    with place.sessions() as sessions:
        sessions.invalidate(args.site, session_value(args.session or ""))
    named = f" {args.session!r}" if args.session else ""
    say(f"the session{named} of {site_of(args.site)} is forgotten")
    return None


def _load(place: Place, site: str, name: str | None) -> Session:
    with place.sessions() as sessions:
        session = sessions.load(site, session_value(name or "")).session
    if session.unreadable:
        raise Refused(
            f"The session of {session.site} cannot be read: {session.unreadable}."
        )
    if not session.epoch:
        named = f" called {name!r}" if name else ""
        raise Refused(f"There is no session of {session.site}{named}.")
    return session
