"""Earns the shop's session without a browser: a small solver of its challenge.

It knows what the script computes. When the shop changes that, it has to follow; a
browser just runs the script.
"""

from __future__ import annotations

import asyncio
import re
from http.cookies import SimpleCookie
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy import FormRequest, Request

from scrapy_redis_state import SessionContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from scrapy.http import Response

    Download: TypeAlias = Callable[[Request], Awaitable[Response]]

CHALLENGED = 403
"""Status of the page that is shown in place of the one that was asked for."""
USER_AGENT = "Mozilla/5.0 (compatible; small solver)"
HEADERS = {"User-Agent": USER_AGENT}


async def earn(download: Download, site: str, login: tuple[str, str]) -> SessionContent:
    """Log in, and answer the challenge.

    :param download: in the session that is made
    :param login: name and password
    :raises ValueError: the shop does not grant it
    """
    cookies = await _log_in(download, urljoin(site, "/login"), login)
    cookies |= await _answer_challenge(download, site)
    return SessionContent(cookies, user_agent=USER_AGENT)


async def _log_in(
    download: Download, url: str, login: tuple[str, str]
) -> dict[str, str]:
    form = await download(Request(url, headers=HEADERS))
    token = form.css("[name=csrf]::attr(value)").get("")
    fields = {"csrf": token, "user": login[0], "password": login[1]}
    return await _send(download, url, fields)


async def _answer_challenge(download: Download, site: str) -> dict[str, str]:
    page = await download(Request(urljoin(site, "/outlet"), headers=HEADERS))
    challenge = page.css("script::attr(data-challenge)").get("")
    difficulty = re.search(r"% (\d+)\)", page.text)
    if not challenge or not difficulty:
        raise ValueError(f"{page.url} is not the challenge that is known")
    # In a thread: the worker goes on with other pages.
    number = await asyncio.to_thread(solve, challenge, int(difficulty[1]))
    fields = {"challenge": challenge, "number": str(number)}
    return await _send(download, urljoin(site, "/challenge"), fields)


async def _send(download: Download, url: str, fields: dict[str, str]) -> dict[str, str]:
    """Send a form, and return the cookies that it is answered with."""
    # The cookies come with the redirect, not with the page that it leads to.
    meta = {"dont_redirect": True}
    request = FormRequest(url, formdata=fields, headers=HEADERS, meta=meta)
    response = await download(request)
    cookies = SimpleCookie()
    for header in response.headers.getlist("Set-Cookie"):
        cookies.load(header.decode())
    if not cookies:
        raise ValueError(f"{url} was answered with {response.status}, without a cookie")
    return {name: cookie.value for name, cookie in cookies.items()}


def solve(challenge: str, difficulty: int) -> int:
    """Find the number that the script looks for."""
    start = _fnv1a(challenge, 0x811C9DC5)
    return next(n for n in count() if _fnv1a(str(n), start) % difficulty == 0)


def _fnv1a(text: str, value: int) -> int:
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
