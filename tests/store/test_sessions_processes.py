"""Several programs change one session at the same time, and nothing is lost."""

from __future__ import annotations

from tests.processes import Programs
from tests.servers import Server
from tests.store import session_writer
from tests.store.session_store import SITE, Store

COUNT = 100


async def test_what_four_programs_change_is_all_there(
    server: Server, scripts_store: Store, programs: Programs
) -> None:
    """Each change of each of them, and no more."""
    store = scripts_store
    fleet = [
        programs.python(
            session_writer.__file__, server.url, store.prefix, f"w{number}", str(COUNT)
        )
        for number in range(4)
    ]
    for program in fleet:
        program.wait_for_output("ready")
    await store.update(SITE, {"go": "1"})
    for program in fleet:
        program.wait_for_success()
    kept = {f"w{n}-{number}" for n in range(4) for number in range(0, COUNT, 2)}
    cookies = await store.load(SITE)
    assert set(cookies) == kept | {"go"}
    assert all(cookies[name] == name for name in kept)
    session = cookies.session
    assert session.tokens == {name: name for name in kept}
    # A cookie and a token set each time, and both deleted every second time.
    assert session.version == 1 + 4 * COUNT * 3
    orders = [one.order for one in session.cookies.values()]
    assert orders == sorted(set(orders))
    for n in range(4):
        mine = [name for name in cookies if name.startswith(f"w{n}-")]
        assert mine == [f"w{n}-{number}" for number in range(0, COUNT, 2)]
