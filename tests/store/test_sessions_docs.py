"""What the documentation says about sessions is so."""

from __future__ import annotations

import json
from pathlib import Path

from tests.processes import REPOSITORY, Programs
from tests.servers import Server
from tests.store.session_store import SITE, Store, cookie
from tests.test_documentation import blocks


def test_the_example_of_the_reference_works(
    server: Server, crawl_name: str, programs: Programs, tmp_path: Path
) -> None:
    """As it stands on the page, on another server."""
    page = REPOSITORY / "docs" / "reference" / "python.rst"
    text = blocks(page)["sessions"].replace("redis://localhost:6379/0", server.url)
    own_keys = f'crawl="shop:offers", prefix="{crawl_name}"'
    text = text.replace('crawl="shop:offers"', own_keys)
    (tmp_path / "script.py").write_text(text)
    script = programs.python("script.py", cwd=tmp_path)
    script.wait_for_success()
    assert script.output.split() == ["4711", "f00", "shop.example", "1"]


async def test_the_page_of_keys_names_all_fields(store: Store) -> None:
    """Those of a session, and those of a cookie."""
    text = (REPOSITORY / "docs" / "reference" / "keys.rst").read_text()
    full = cookie(
        "a", expires=4e9, same_site="Lax", partition_key="https://shop.example"
    )
    bound = {"user_agent": "a", "proxy": "p", "headers": {"X": "y"}}
    await store.save(SITE, [full], tokens={"t": "1"}, **bound)
    fields = store.fields()
    (stored,) = [value for name, value in fields.items() if name.startswith("cookie:")]
    for name in fields:
        assert f"\n``{name.partition(':')[0]}" in text
    for name in json.loads(stored):
        assert f"``{name}``" in text
