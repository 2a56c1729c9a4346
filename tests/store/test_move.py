"""Whole crawls in files: ``CrawlState.export`` and ``CrawlState.import_``."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import SCHEMA_VERSION, Store
from scrapy_redis_state.store.move.form import (
    LEFT_BEHIND,
    bytes_of,
    json_of,
)
from scrapy_redis_state.store.seen import PER_SHARD, SeenSet
from tests.servers import Server
from tests.store.bloom import bloom_module
from tests.store.crawls import LEASE_MS, Crawl, ack, page
from tests.store.moves import copy_of, crawl_with, fill, raw, state_of

OTHER = {"valkey": "redis", "redis": "valkey"}


@pytest.fixture(scope="module")
def elsewhere(server_kind):
    """A server of the other kind."""
    with Server(OTHER[server_kind]) as server:
        yield server


@pytest.fixture
def copy(crawl, elsewhere, crawl_name):
    """Where the crawl goes: another server, another prefix, another id."""
    copy = copy_of(crawl, elsewhere.client(), f"{crawl_name}-copy", "moved:")
    yield copy
    assert copy.fsck() == []
    copy.client.flushall()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "crawl.jsonl.gz"


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    if path.suffix != ".jsonl":
        text = gzip.decompress(text)
    return [json.loads(line) for line in text.splitlines()]


class TestCopies:
    @pytest.mark.parametrize("order", ["fifo", "lifo"])
    def test_a_copy_has_all_that_the_crawl_had(self, crawl, copy, file, order):
        """On another kind of server, under another prefix and id."""
        fill(crawl, order)
        with crawl.unchanged():
            exported = state_of(crawl).export(file)
        imported = state_of(copy).import_(file)
        assert raw(copy) == raw(crawl)
        assert copy.summary.seen_version == crawl.summary.seen_version + 1
        assert copy.fsck() == []
        assert dict(imported.counts) == dict(exported.counts)
        assert imported.crawl == crawl.keys.crawl
        assert (exported.counts["pending"], exported.counts["dead"]) == (25, 1)
        assert imported.notes == exported.notes == []

    @pytest.mark.parametrize("order", ["fifo", "lifo"])
    def test_requests_come_in_the_same_order(self, crawl, copy, file, order):
        """Ties too, those that were in flight among them, and those stored later."""
        fill(crawl, order)
        crawl.later()
        crawl.reap()  # what was in flight is where it will be in the copy
        crawl.ago("last_time")
        state_of(crawl).export(file)
        crawl.push(page("later"))
        expected = sorted(crawl.place("frontier").items(), key=lambda p: (p[1], p[0]))
        state_of(copy).import_(file)
        copy.push(page("later"))
        found = [one.id for one in _drain(copy)]
        assert found == [id for id, _ in reversed(expected)]
        assert len(found) == 26

    def test_lines_are_in_the_order_in_which_requests_come(self, crawl, file):
        """For people who read them."""
        fill(crawl)
        state_of(crawl).export(file)
        found = [r["id"] for r in lines_of(file) if r["kind"] == "pending"]
        ids = crawl.client.zrevrange(crawl.key("frontier"), 0, -1)
        assert found == [id.decode() for id in ids]

    def test_a_copy_of_a_copy_is_equal(self, crawl, copy, file, tmp_path):
        """Back to where it came from, though it was never deleted elsewhere."""
        fill(crawl)
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        before = raw(crawl)
        again = tmp_path / "again.jsonl"
        state_of(copy).export(again)
        assert state_of(crawl).delete(force=True)
        state_of(crawl).import_(again)
        assert raw(crawl) == before

    def test_a_small_crawl_is_copied(self, crawl, copy, file):
        """One that nobody but a producer has touched."""
        crawl.push(page("a"))
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert raw(copy) == raw(crawl)
        member = copy.member()
        assert member.take_one().payload == b"a"

    @pytest.mark.parametrize("spec", ["packed:20000", "exact+revisits",
                                      "packed:20000+revisits"])  # fmt: skip
    def test_seen_sets_of_all_kinds_are_copied(
        self, server, crawl_name, elsewhere, file, spec
    ):
        """With all epochs that count; a page that was seen still is."""
        crawl = crawl_with(server.client(), crawl_name, SeenSet.parse(spec))
        copy = copy_of(crawl, elsewhere.client(), f"{crawl_name}-copy")
        revisits = "+revisits" in spec
        fields: dict[str, Any] = {"identity": {"seen": spec}}
        if revisits:
            fields["tunable"] = {"revisit_ms": "1000000"}
        crawl.member(**fields)
        for name in "abcd":
            crawl.push(*(page(f"{name}{n}") for n in range(100)))
            if revisits:
                crawl.ago("epoch_began", 500_000)
        crawl.push(page("e"))
        assert len(raw(crawl)["seen"]) == (3 if revisits else 1)
        crawl.ago("last_time", 10 * LEASE_MS)
        crawl.set(lease_ms=LEASE_MS)
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert raw(copy) == raw(crawl)
        kept = "cd" if revisits else "abcd"
        for name in kept:
            answers = copy.push(*(page(f"{name}{n}") for n in range(100)))
            assert set(answers) == {"d"}, name
        assert copy.push(page("new")) == ("s",)
        copy.client.flushall()

    @pytest.mark.one_server
    def test_a_bloom_filter_is_copied_to_a_server_that_has_them(
        self, fresh_server, crawl_name, tmp_path
    ):
        """And nowhere else; nothing is left there."""
        module = ["--loadmodule", str(bloom_module())]
        one, two = (fresh_server("redis", extra_args=module) for _ in range(2))
        plain = fresh_server()
        seen_set = SeenSet("bloom", 1000, 0.001)
        crawl = crawl_with(one.client(), crawl_name, seen_set)
        with state_of(crawl) as state:
            state.push_many(f"http://a.example/{n}" for n in range(2500))
            moved = state.export(tmp_path / "crawl.gz")
        assert moved.counts["bloom"] > 1
        copy = copy_of(crawl, two.client(), "copy")
        with state_of(copy) as state:
            state.import_(tmp_path / "crawl.gz")
            pushed = state.push_many(f"http://a.example/{n}" for n in range(2500))
            assert not any(pushed)
            assert sum(state.push_many(f"http://b.example/{n}" for n in range(99))) > 90
        with state_of(copy_of(crawl, plain.client(), "copy")) as state:
            with pytest.raises(Refused, match="needs a server with RedisBloom"):
                state.import_(tmp_path / "crawl.gz")
            assert plain.client().keys() == []

    def test_a_finished_crawl_is_finished_and_expires(self, crawl, copy, file):
        """In its own time, counted from the import."""
        crawl.push(page("a"))
        crawl.finish(given=True)
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert copy.join("late", given=True).status == "finished"
        for key in copy.client.scan_iter():
            assert copy.client.pttl(key) > 50_000, key

    def test_shards_of_a_finished_crawl_expire_too(
        self, server, crawl_name, elsewhere, file
    ):
        """Every key does."""
        seen_set = SeenSet("packed", 3000 * PER_SHARD)
        crawl = crawl_with(server.client(), crawl_name, seen_set)
        crawl.push(*(page(f"{n}") for n in range(100)))
        crawl.finish(identity={"seen": seen_set.spec})
        state_of(crawl).export(file)
        copy = copy_of(crawl, elsewhere.client(), "copy")
        state_of(copy).import_(file)
        keys = copy.client.keys()
        assert len(keys) > 90
        assert all(copy.client.pttl(key) > 0 for key in keys)
        copy.client.flushall()

    def test_garbage_is_kept_as_it_is(self, crawl, copy, file):
        """Who pops it makes a dead letter of it, there as here."""
        crawl.push(page("a"), page("b"), page("c"))
        ids = sorted(crawl.place("frontier"))
        crawl.client.hset(crawl.key("requests"), ids[0], b"garbage")
        crawl.client.zadd(crawl.key("frontier"), {ids[1]: 1.5})
        member = crawl.member()
        lease = member.take_one()
        member.answers(ack(lease))
        crawl.client.zadd(crawl.key("dead"), {lease.id: 1234.5})
        crawl.client.hset(crawl.key("deadinfo"), lease.id, b"\xc1")
        member.leave()
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert raw(copy) == raw(crawl)
        crawl.client.flushall()
        copy.client.flushall()

    def test_every_field_of_the_hash_is_moved_or_left_on_purpose(self):
        """A new one is thought about: see ``LEFT_BEHIND``."""
        text = (Path(scripts.__file__).parent / "lua/include/crawl.lua").read_text()
        block = text.partition("FIELDS = {")[2].partition("}")[0]
        fields = set(re.findall(r"'([\w:]+)'", block))
        moved = {
            *("generation", "finished_at", "given", "most_workers", "seeding"),
            *("seed_failures", "done", "lease_ms", "max_deliveries"),
            *("finished_ttl_ms", "order", "agreed:seen", "seen_count", "epoch_began"),
            *("revisit_ms", "max_per_site", "seen_version", "keep_alive", "sequence"),
        }
        assert fields - LEFT_BEHIND == moved


def _drain(crawl: Crawl):
    member = crawl.member("drainer", identity={}, tunable={})
    popped = []
    while leases := member.take(7, idle=True):
        popped += leases
        member.exchange(*map(ack, leases))
    return popped


@pytest.mark.one_server
class TestWhen:
    def test_not_while_workers_are_at_work(self, crawl, file):
        """Nor is there a file then."""
        crawl.push(page("a"), page("b"))
        crawl.member().take(1)
        text = "is at work .1 live workers, 1 in flight.: stop them, or pause it"
        with pytest.raises(Refused, match=text):
            state_of(crawl).export(file)
        assert not file.exists()

    def test_when_it_is_paused_and_nothing_is_in_flight(self, crawl, copy, file):
        """Workers may wait beside; the copy is paused as well."""
        crawl.push(page("a"), page("b"))
        member = crawl.member()
        lease = member.take_one()
        state_of(crawl).pause()
        with pytest.raises(Refused, match="1 in flight"):
            state_of(crawl).export(file)
        member.exchange(ack(lease), busy=True)
        with pytest.raises(Refused, match="0 in flight"):
            state_of(crawl).export(file)
        member.exchange()
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert copy.summary.status == "paused"
        assert copy.summary.pending == 1

    def test_when_nothing_is_left_to_do(self, crawl, copy, file):
        """Workers that wait for more do not change it."""
        crawl.push(page("a"))
        member = crawl.member()
        member.exchange(ack(member.take_one()))
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        assert copy.push(page("a")) == ("d",)

    def test_what_dead_workers_held_is_pending(self, crawl, copy, file):
        """With its deliveries; that they are dead is known after a lease."""
        crawl.push(page("a"))
        crawl.member().take(1)
        crawl.later()
        crawl.reap()
        crawl.member("w2").take(1)
        with pytest.raises(Refused, match="is at work"):
            state_of(crawl).export(file)
        crawl.ago("last_time")
        assert state_of(crawl).export(file).counts["in_flight"] == 1
        state_of(copy).import_(file)
        (popped,) = copy.member().exchange(want=5).popped
        assert popped.entry == b"0;1;;a"

    @pytest.mark.parametrize("change", ["push", "prioritize", "pause", "take"])
    def test_a_change_meanwhile_is_noticed(self, crawl, copy, file, change):
        """There is no file then; forced, there is one that says so."""
        crawl.push(*(page(f"{n}") for n in range(50)))
        done: list[int] = []

        def change_it(*_):
            done.append(1)
            if len(done) > 1:
                return
            if change == "push":
                crawl.push(page("new"))
            elif change == "prioritize":
                ids = sorted(crawl.place("frontier"))[:1]
                crawl.run(scripts.prioritize(crawl.keys, 5, ids))
            elif change == "pause":
                state_of(crawl).pause() or state_of(crawl).resume()
            else:
                crawl.member(f"w{crawl.field('clock')}").take(1)
                crawl.later(1)

        with pytest.raises(Refused, match="changed while it was read"):
            state_of(crawl).export(file, progress=change_it)
        assert list(file.parent.iterdir()) == []
        done.clear()
        crawl.push(page("more"))
        moved = state_of(crawl).export(file, force=True, progress=change_it)
        assert "changed while it was read" in moved.notes[-1]
        again = state_of(copy).import_(file)
        assert "changed while it was exported" in again.notes[0]

    def test_a_request_that_is_there_twice_has_one_place(self, crawl, copy, file):
        """In the file of a crawl that changed while it was read."""
        crawl.push(*(page(f"{n}") for n in range(450)))
        last = min(crawl.place("frontier"))
        done: list[bytes] = []

        def move(count, _):
            if count == 600 and not done:  # 450 seen, and some requests
                ids = crawl.client.zrevrange(crawl.key("frontier"), 0, 0)
                crawl.run(scripts.prioritize(crawl.keys, -5, [ids[0].decode()]))
                done.extend(ids)

        state_of(crawl).export(file, force=True, progress=move)
        assert done
        ids = [r["id"] for r in lines_of(file) if r["kind"] == "pending"]
        assert len(ids) == 450 > len(set(ids))
        state_of(copy).import_(file)
        assert copy.summary.pending == 449
        assert last in copy.place("frontier")

    def test_half_entries_are_not_copied_unseen(self, crawl, file):
        """They belong to no place, or have nothing to run."""
        crawl.push(page("a"))
        crawl.client.hset(crawl.key("requests"), "0" * 14, b"0;0;;b")
        with pytest.raises(Refused, match="1 requests in its queues and 2 stored"):
            state_of(crawl).export(file)
        state_of(crawl).export(file, force=True)
        crawl.client.flushall()

    def test_there_must_be_a_crawl(self, crawl, file):
        """Else nothing is made."""
        with pytest.raises(Refused, match="There is no crawl"):
            state_of(crawl).export(file)
        assert list(file.parent.iterdir()) == []


@pytest.mark.one_server
class TestFiles:
    def test_its_directory_must_be_there(self, crawl, file):
        """The error names the file that was asked for."""
        crawl.push(page("a"))
        missing = file.parent / "no" / "crawl.gz"
        with pytest.raises(Refused, match=r"crawl\.gz: there is no directory .*no: "):
            state_of(crawl).export(missing)

    def test_only_its_owner_may_read_it(self, crawl, file):
        """Whatever was there before."""
        crawl.push(page("a"))
        file.touch(mode=0o644)
        state_of(crawl).export(file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [one.name for one in file.parent.iterdir()] == [file.name]

    def test_it_may_be_plain_lines_or_a_stream(self, crawl, copy, tmp_path):
        """Compressed or not is seen when it is read."""
        crawl.push(page("a"))
        plain, stream = tmp_path / "crawl.jsonl", io.BytesIO()
        state_of(crawl).export(plain)
        state_of(crawl).export(stream)
        assert (
            gzip.decompress(stream.getvalue()).splitlines()[1:-1]
            == (plain.read_bytes().splitlines()[1:-1])
        )
        for source in (io.BytesIO(plain.read_bytes()), io.BytesIO(stream.getvalue())):
            state_of(copy).import_(source)
            assert copy.summary.pending == 1
            assert state_of(copy).delete()

    def test_the_header_tells_what_it_is(self, crawl, server_kind, file):
        """To people and to later versions."""
        fill(crawl)
        state_of(crawl).export(file)
        header, own, *_, end = lines_of(file)
        assert header["format"] == "scrapy-redis-state crawl"
        assert header["version"] == 1
        assert header["crawl"] == crawl.keys.crawl
        assert header["server"]["kind"] == server_kind
        assert header["settings"] == {
            "order": "fifo", "schema": SCHEMA_VERSION, "spider": "offers",
            "seen": "exact", **{n: header["settings"][n] for n in header["settings"]
                                if n.endswith("_ms") or n.startswith("max_")},
        }  # fmt: skip
        assert own["status"] == "running"
        assert not {"token", "clock", "stamp", "suspect"} & own["fields"].keys()
        assert end["changed"] is False

    @pytest.mark.long
    def test_neither_end_has_all_of_a_crawl_in_memory(self, crawl, copy, file):
        """However much there is: 20 MB here, and a few at a time."""
        for first in range(0, 10_000, 500):
            names = [f"{n}" for n in range(first, first + 500)]
            crawl.push(*(Store(b"\xff" * 2000, 0, name.encode()) for name in names))
        tracemalloc.start()
        state_of(crawl).export(file)
        state_of(copy).import_(file)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 6_000_000
        assert copy.summary.pending == 10_000

    @given(st.binary())
    def test_any_bytes_survive(self, value):
        """In JSON."""
        assert bytes_of(json.loads(json.dumps(json_of(value)))) == value

    @pytest.mark.parametrize("compressed", [True, False])
    def test_a_file_that_is_cut_off_or_damaged_changes_nothing(
        self, crawl, copy, tmp_path, compressed
    ):
        """Wherever, and from a pipe as well."""
        fill(crawl)
        path = tmp_path / ("crawl.gz" if compressed else "crawl.jsonl")
        state_of(crawl).export(path)
        whole = path.read_bytes()
        cuts = [0, 1, 30, len(whole) // 2, len(whole) - 9, len(whole) - 1]
        damaged = [whole[:cut] for cut in cuts]
        middle = len(whole) // 2
        damaged.append(
            whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        )
        damaged.append(whole + b"more")
        for content in damaged:
            path.write_bytes(content)
            for source in (path, io.BytesIO(content)):
                if compressed and content == whole + b"more":
                    continue  # zero padding and rubbish after gzip differ by version
                with pytest.raises(Refused):
                    state_of(copy).import_(source)
                assert copy.client.keys() == []

    @pytest.mark.parametrize(
        ("kind", "change", "text"),
        [
            ("header", {"version": 2}, "has version 2 of the format, and 1 is known"),
            ("header", {"format": "tar"}, "is not an exported crawl"),
            ("header", {"settings": {"schema": "2"}}, "version of its keys '2'"),
            ("header", {"settings": {"seen": "cuckoo:9"}}, "no kind of seen set"),
            ("crawl", {"status": "resting"}, "is not a valid CrawlStatus"),
            ("end", {"sequence": 3}, "has 3 as sequence, from which not all ids"),
            ("pending", {"kind": "hologram"}, "'hologram', which is not known here: it"
             " was written by scrapy-redis-state "),
            ("pending", {"id": "../1"}, "as an id, which is none"),
            ("pending", {"priority": "high"}, "has no number as priority"),
            ("pending", {"payload": {"base64": "?"}}, "not base64"),
            ("pending", {"deliveries": 2**70}, "a number that is too large"),
            ("delayed", {"not_before": None}, "has no number as not_before"),
            ("dead", {"reason": 7}, "has no text"),
            ("seen", {"age": 3}, "has 3 as age"),
            ("seen", {"members": []}, "has no list of 1 to 1000"),
            ("revisits", {"until": [["a"]]}, "no list of pairs"),
        ],
    )  # fmt: skip
    def test_what_a_line_must_not_say(self, crawl, copy, file, kind, change, text):  # noqa: PLR0917
        """Nothing is written, and the line is named."""
        fill(crawl)
        state_of(crawl).export(file)
        lines = lines_of(file)
        number = [line["kind"] for line in lines].index(kind)
        lines[number] |= change
        texts = [json.dumps(line, separators=(",", ":")) for line in lines]
        file.write_text("\n".join(texts) + "\n")
        with pytest.raises(Refused, match=re.escape(text)):
            state_of(copy).import_(file)
        with pytest.raises(Refused, match=re.escape(text)):
            state_of(copy).import_(io.BytesIO(file.read_bytes()))
        assert copy.client.keys() == []
