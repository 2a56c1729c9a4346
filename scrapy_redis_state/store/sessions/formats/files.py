"""Files with cookies, in whichever form they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scrapy_redis_state.store.sessions.cookie import read_json
from scrapy_redis_state.store.sessions.formats.imported import Imported
from scrapy_redis_state.store.sessions.formats.netscape import (
    BrokenLine,
    read_cookies_txt,
)
from scrapy_redis_state.store.sessions.formats.playwright import (
    read_cookies,
    read_storage_state,
)


def read_cookie_file(path: str | Path) -> Imported:
    """A storage state or a list of cookies (JSON), or a ``cookies.txt``.

    :raises ValueError: naming the file, if it is neither, or a line of it is broken
    :raises OSError: if it cannot be read
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return _read_text(text)
    except BrokenLine as error:
        raise ValueError(f"{path}: {error}: correct or remove it.") from None
    except ValueError:
        raise ValueError(
            f"{path} holds no cookies: give a storage state or a list of cookies of"
            " Playwright (JSON), or a cookies.txt in Netscape's format."
        ) from None


def _read_text(text: str) -> Imported:
    if text.lstrip()[:1] not in ("{", "["):
        if not text.strip():
            raise ValueError("empty")
        return read_cookies_txt(text)
    content: Any = read_json(text)
    if isinstance(content, list):
        return read_cookies(content)
    if "cookies" not in content:
        raise ValueError("another object")
    return read_storage_state(content)
