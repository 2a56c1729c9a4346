"""What the shop shows to some: member prices after a login, the outlet to browsers."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from storefront import challenge
from storefront.answers import NOT_FOUND, Answer, page
from storefront.catalog import CATEGORIES, PER_PAGE
from storefront.visit import signed, text_of

if TYPE_CHECKING:
    from storefront.catalog import Catalog
    from storefront.visit import Visit

MEMBERS = {"ann": "open sesame"}
"""Passwords by name."""
LOGIN, WELCOME = "/login", "/welcome"
SIGNED_IN = "member"
"""The cookie of a member: the name, signed."""
FORM_SESSION = "visit"
"""The cookie that the login form's token goes with."""
DISCOUNT = 2
"""Of members, in whole coins."""


class MembersArea:
    """Answers the requests that are not for everybody."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def answer(self, visit: Visit) -> Answer | None:
        """Return the answer; None: it is an ordinary page of the shop."""
        path = urlsplit(visit.path).path
        if path == LOGIN:
            return _login(visit) if visit.method == "POST" else _form()
        if path == challenge.PATH and visit.method == "POST":
            return challenge.answer(visit)
        first = path.strip("/").partition("/")[0]
        if path == WELCOME or first == "members":
            if not _is_member(visit):
                return Answer(302, location=LOGIN)
            return page("Welcome") if path == WELCOME else self._members(visit.path)
        if first == "outlet":
            is_cleared = challenge.is_cleared(visit)
            return self._outlet(path) if is_cleared else challenge.challenge(visit)
        return None

    def _members(self, path: str) -> Answer:
        if match := re.fullmatch(r"/members/(\d+)", path):
            return self._product(path, int(match[1]))
        if match := re.fullmatch(r"/members/([a-z]+)(?:\?page=(\d+))?", path):
            return self._department(match[1], int(match[2] or 1))
        return NOT_FOUND

    def _outlet(self, path: str) -> Answer:
        if match := re.fullmatch(r"/outlet/(\d+)", path):
            return self._product(path, int(match[1]))
        return page("Outlet") if path == "/outlet" else NOT_FOUND

    def _department(self, name: str, number: int) -> Answer:
        if name not in CATEGORIES:
            return NOT_FOUND
        products = [
            product
            for product in self.catalog.products()
            if product % len(CATEGORIES) == CATEGORIES.index(name)
        ]
        links = [
            self.catalog.member_url(product)
            for product in products[(number - 1) * PER_PAGE : number * PER_PAGE]
        ]
        if not links:
            return NOT_FOUND
        if number * PER_PAGE < len(products):
            links.append(f"/members/{name}?page={number + 1}")
        return page(f"{name.capitalize()} for members, page {number}", links)

    def _product(self, path: str, product: int) -> Answer:
        is_there = product in range(1, self.catalog.size + 1)
        if not is_there or path != self.catalog.member_url(product):
            return NOT_FOUND
        price = self.catalog.price(product) - DISCOUNT
        article = (
            f'<article data-id="{product}"><p class="price">{price}.90</p></article>'
        )
        return page(f"Product {product}", content=article)


def _is_member(visit: Visit) -> bool:
    return text_of(visit.cookies.get(SIGNED_IN, ""), SIGNED_IN) in MEMBERS


def _form() -> Answer:
    session = secrets.token_hex(8)
    form = (
        f'<form method="post" action="{LOGIN}">'
        f'<input type="hidden" name="csrf" value="{signed(session, LOGIN)}">'
        '<input name="user"><input name="password" type="password">'
        "<button>Log in</button></form>"
    )
    cookie = f"{FORM_SESSION}={session}; Path=/; HttpOnly"
    return page("Log in", content=form, cookies=(cookie,))


def _login(visit: Visit) -> Answer:
    session = text_of(visit.form.get("csrf", ""), LOGIN)
    if not session or session != visit.cookies.get(FORM_SESSION):
        return Answer(403, "This form is not yours.\n", "plain")
    user = visit.form.get("user", "")
    if user not in MEMBERS or visit.form.get("password") != MEMBERS[user]:
        return Answer(403, "Wrong name or password.\n", "plain")
    cookie = f"{SIGNED_IN}={signed(user, SIGNED_IN)}; Path=/; HttpOnly"
    return Answer(303, location=WELCOME, cookies=(cookie,))
