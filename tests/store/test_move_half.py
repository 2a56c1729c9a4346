"""An import that ends half-way: nobody uses the crawl, and it can be removed."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import CrawlStatus
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.translate import translated
from tests.servers import Server
from tests.store.crawls import Crawl, page
from tests.store.faults import Faults, breakable_client
from tests.store.moves import copy_of, fill, state_of
from tests.store.users import PREFIX, documented_user, url_of_user

SITE = "shop.example"


class Stream(io.RawIOBase):
    """A file in the middle of which something happens."""

    def __init__(self, content: bytes, happen: Callable[[], object]) -> None:
        middle = len(content) * 3 // 4
        self._parts = [content[:middle], content[middle:]]
        self._happen = happen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._parts:
            return 0
        piece = self._parts[0][: len(buffer)]
        self._parts[0] = self._parts[0][len(buffer) :]
        buffer[: len(piece)] = piece
        if not self._parts[0]:
            self._parts.pop(0)
            if self._parts:
                self._happen()
        return len(piece)


def stream(content: bytes, happen: Callable[[], object]) -> BinaryIO:
    return cast("BinaryIO", Stream(content, happen))


@pytest.fixture
def content(crawl: Crawl, tmp_path: Path) -> bytes:
    """The file of a crawl that is there no more, as plain lines."""
    fill(crawl)
    crawl.push(*(page(f"more {n}") for n in range(1000)))
    path = tmp_path / "crawl.jsonl"
    state_of(crawl).export(path)
    crawl.client.flushall()
    return path.read_bytes()


def break_off(crawl: Crawl, content: bytes) -> None:
    """Leave a crawl as an importer does that is killed."""
    kept: dict[bytes, bytes] = {}

    def kill() -> None:
        assert crawl.field("status") == "importing"
        kept.update({key: crawl.client.dump(key) for key in crawl.client.scan_iter()})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        state_of(crawl).import_(stream(content, kill))
    assert crawl.client.keys() == []
    for key, value in kept.items():
        crawl.client.restore(key, 0, value)


@pytest.mark.one_server
def test_nobody_can_use_half_a_crawl(crawl: Crawl, content: bytes) -> None:
    """Each is told what it is, and nothing is changed."""
    break_off(crawl, content)
    state = state_of(crawl)
    uses: list[Callable[[], object]] = [
        lambda: crawl.member("w"),
        lambda: crawl.push(page("new")),
        state.lease,
        state.pause,
        state.reap,
        state.peek,
        lambda: state.reset(force=True),
        lambda: state.prioritize("a", 1),
        state.dead_letters,
        lambda: state.export("/nonexistent"),
    ]
    with crawl.unchanged():
        for use in uses:
            with pytest.raises(Refused) as caught:
                use_translated(use)
            assert "an import of it broke off" in str(caught.value)
            assert "remove what there is with 'scrapy redis-state delete'" in str(
                caught.value
            )
        with pytest.raises(Refused, match="broke off: if none runs any more, 'delete'"):
            state.import_(io.BytesIO(content))
        assert state.status().summary.status is CrawlStatus.IMPORTING
    assert state.delete()
    assert crawl.client.keys() == []
    state.import_(io.BytesIO(content))
    assert crawl.summary.pending == 1025


def use_translated(use: Callable[[], object]) -> None:
    with translated():
        use()


@pytest.mark.one_server
@pytest.mark.parametrize("spec", ["packed:20000", "exact+revisits"])
def test_many_keys_of_half_a_crawl_are_removed(
    server: Server, crawl_name: str, tmp_path: Path, spec: str
) -> None:
    """By whoever imports, when it cannot go on, and by a deletion."""
    crawl = Crawl(server.client(), crawl_name)
    crawl.keys = CrawlKeys(crawl_name, "", SeenSet.parse(spec))
    crawl.member(identity={"seen": spec})
    crawl.push(*(page(f"{n}") for n in range(3000)))
    crawl.ago("last_time", 60_000)
    path = tmp_path / "crawl.jsonl"
    state_of(crawl).export(path)
    crawl.client.flushall()
    break_off(crawl, path.read_bytes())
    assert state_of(crawl).delete()
    assert crawl.client.keys() == []


@pytest.mark.one_server
def test_what_is_deleted_meanwhile_is_not_gone_on_with(
    crawl: Crawl, content: bytes
) -> None:
    """Nor is what somebody began in its place removed."""

    def take_its_place() -> None:
        assert state_of(crawl).delete()
        crawl.push(page("mine"))

    with pytest.raises(Refused, match="was deleted while it was imported"):
        state_of(crawl).import_(stream(content, take_its_place))
    assert [*crawl.place("frontier").values()] == [0]
    assert crawl.push(page("mine")) == ("d",)


@pytest.mark.one_server
def test_a_crawl_that_is_whole_is_not_taken_back(
    server: Server, crawl: Crawl, content: bytes
) -> None:
    """When the last reply is lost: somebody may have begun with it."""
    total = sum(state_of(crawl).import_(io.BytesIO(content)).counts.values())
    assert state_of(crawl).delete()
    faults = Faults()
    client = breakable_client(server.url, faults)

    def lose_the_last_reply(done: int, _: int) -> None:
        faults.reply_is_lost = done == total

    with CrawlState(client, crawl.keys) as state, pytest.raises(Unavailable) as caught:
        state.import_(io.BytesIO(content), progress=lose_the_last_reply)
    assert "may still be there" not in str(caught.value)
    assert crawl.summary.status is CrawlStatus.RUNNING
    assert crawl.summary.pending == 1025


@pytest.mark.one_server
def test_a_crawl_that_is_there_is_not_mixed_with_another(
    crawl: Crawl, content: bytes
) -> None:
    """Nor is what is left of one."""
    crawl.push(page("a"))
    with crawl.unchanged(), pytest.raises(Refused) as caught:
        state_of(crawl).import_(io.BytesIO(content))
    assert "two crawls are not mixed: 'delete' it first" in str(caught.value)
    crawl.client.delete(crawl.key("crawl"))
    with crawl.unchanged(), pytest.raises(Refused, match="There is a crawl"):
        state_of(crawl).import_(io.BytesIO(content))
    crawl.client.set(crawl.key("crawl"), "not ours")
    with crawl.unchanged(), pytest.raises(Refused, match=r"delete' it first"):
        state_of(crawl).import_(io.BytesIO(content))
    crawl.client.flushall()


def test_a_full_server_is_left_as_it_was(
    crawl: Crawl, content: bytes, fresh_server: Callable[..., Server]
) -> None:
    """Nothing of half a crawl stays."""
    other = fresh_server(extra_args=["--maxmemory-policy", "noeviction"])
    copy = copy_of(crawl, other.client(), "copy")

    def fill_up() -> None:
        other.client().config_set("maxmemory", 1)

    with pytest.raises(Unavailable, match="maxmemory"):
        state_of(copy).import_(stream(content, fill_up))
    assert other.client().keys() == []


@pytest.mark.one_server
def test_a_server_that_dies_meanwhile_keeps_half_a_crawl_and_it_is_told(
    crawl: Crawl, content: bytes, fresh_server: Callable[..., Server]
) -> None:
    """With the remedy, which works when it is back."""
    other = fresh_server(appendonly=True)
    copy = copy_of(crawl, other.client(), "copy")
    text = "may still be there, and is of no use: 'delete' it when the server"
    with pytest.raises(Unavailable, match=text):
        state_of(copy).import_(stream(content, other.kill))
    other.start()
    copy = copy_of(crawl, other.client(), "copy")
    with pytest.raises(Refused, match="broke off"):
        state_of(copy).lease()
    assert state_of(copy).delete()
    state_of(copy).import_(io.BytesIO(content))
    assert copy.summary.pending == 1025


@pytest.fixture
def user(server: Server) -> Iterator[Any]:
    """A client that may do what the documentation says a crawl needs."""
    server.client().execute_command(*documented_user())
    client = sync_client(url_of_user(server))
    yield client
    client.close()
    server.client().execute_command("ACL", "DELUSER", "crawler")


def test_the_documented_rights_are_enough(
    crawl: Crawl, content: bytes, user: Any, tmp_path: Path
) -> None:
    """To import, to export and to tidy up after a failure."""
    keys = CrawlKeys(crawl.keys.crawl, PREFIX)
    with CrawlState(user, keys) as state:
        with pytest.raises(Refused, match="is cut off"):
            state.import_(io.BytesIO(content[:-9]))
        state.import_(io.BytesIO(content))
        state.sessions.save(SITE, {"a": "1"})
        moved = state.export(tmp_path / "crawl.gz", sessions=True)
        assert (moved.counts["pending"], moved.counts["session"]) == (1025, 1)
    crawl.client.flushall()


class TestSessions:
    def export(self, crawl: Crawl, path: Path, **options: Any) -> Any:
        crawl.push(page("a"))
        return state_of(crawl).export(path, **options)

    @pytest.mark.one_server
    def test_they_are_copied_if_asked_for(
        self, server: Server, crawl_name: str, tmp_path: Path
    ) -> None:
        """With all that belongs to them, as long as they live, and not who renews."""
        path = tmp_path / "crawl.jsonl"
        crawl = Crawl(server.client(), crawl_name)
        crawl.keys = CrawlKeys(crawl_name, f"{crawl_name}:")
        with state_of(crawl) as state:
            state.sessions.save(SITE, {"sid": "s3cret"}, user_agent="Mozilla/5.0")
            state.sessions.save(SITE, {"sid": "2"}, session="böb:1")
            state.sessions.save("[::1]:80", {"sid": "3"}, tokens={"t": "\n"})
            key = f"{crawl_name}:sess:{SITE}"
            crawl.client.hset(key, "renewal:holder", "w1")
            before = {k: crawl.client.hgetall(k) for k in crawl.client.keys("*sess:*")}
            crawl.push(page("a"))
            assert "session" not in state.export(path).counts
            assert "s3cret" not in path.read_text()
            assert state.export(path, sessions=True).counts["session"] == 3
        crawl.client.flushall()
        crawl = copy_of(crawl, server.client(), crawl_name, f"{crawl_name}+")
        with state_of(crawl) as state:
            assert state.import_(path).counts["session"] == 3
            assert state.sessions.load(SITE) == {"sid": "s3cret"}
            assert state.sessions.load(SITE, "böb:1") == {"sid": "2"}
            assert state.sessions.load("[::1]:80").session.tokens == {"t": "\n"}
        del before[key.encode()][b"renewal:holder"]
        for name, fields in before.items():
            moved = name.replace(
                f"{crawl_name}:".encode(), f"{crawl_name}+".encode(), 1
            )
            assert crawl.client.hgetall(moved) == fields
            assert 0 < crawl.client.ttl(moved) <= 1800

    @pytest.mark.one_server
    def test_one_that_is_there_or_is_over_is_left_out(
        self, server: Server, crawl_name: str, tmp_path: Path
    ) -> None:
        """Those who use it now know better; a dead one is not revived."""
        path = tmp_path / "crawl.jsonl"
        crawl = Crawl(server.client(), crawl_name)
        crawl.keys = CrawlKeys(crawl_name, f"{crawl_name}:")
        with state_of(crawl) as state:
            state.sessions.save(SITE, {"sid": "old"})
            state.sessions.save("over.example", {"sid": "over"})
            crawl.push(page("a"))
            state.export(path, sessions=True)
            assert state.delete()
            crawl.client.delete(f"{crawl_name}:sess:over.example")
            _have_expire(path, "over.example")
            state.sessions.save(SITE, {"sid": "new"})
            moved = state.import_(path)
            assert "2 sessions were left out" in moved.notes[0]
            assert state.sessions.load(SITE) == {"sid": "new"}
            assert state.sessions.load("over.example") == {}


def _have_expire(path: Path, site: str) -> None:
    """As if the file were old."""
    *lines, last = map(json.loads, path.read_text().splitlines())
    for line in lines:
        if line.get("site") == site:
            line["expires_at"] = 1000
    text = "".join(map(line_of, lines))
    last["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(text + line_of(last))


def line_of(record: Any) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
