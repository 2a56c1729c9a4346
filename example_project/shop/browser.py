"""Earns the shop's session with headless Chromium, through Playwright."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from playwright.async_api import async_playwright

from scrapy_redis_state import SessionContent

if TYPE_CHECKING:
    from playwright.async_api import Page

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
TIMEOUT_MS = 60_000
"""For each step."""


async def earn(chromium: str, site: str, login: tuple[str, str]) -> SessionContent:
    """Log in, and let the script of the challenge run.

    :param chromium: path of the program
    :param login: name and password
    """
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=FLAGS, timeout=TIMEOUT_MS
        )
        page = await browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        await _log_in(page, site, login)
        await page.goto(urljoin(site, "/outlet"))
        await page.wait_for_selector("h1:text('Outlet')")
        content = SessionContent(
            await page.context.cookies(site),
            user_agent=await page.evaluate("navigator.userAgent"),
        )
        await browser.close()
        return content


async def _log_in(page: Page, site: str, login: tuple[str, str]) -> None:
    await page.goto(urljoin(site, "/login"))
    for field, value in zip(("user", "password"), login, strict=True):
        await page.fill(f"[name={field}]", value)
    await page.click("form button")
    await page.wait_for_url("**/welcome")
