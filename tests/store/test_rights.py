"""A user who lacks a right is told at start which one, and how to give it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from scrapy_redis_state.store import scripts
from scrapy_redis_state.store.client import sync_client, translated
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.messages import JoinRequest, JoinStatus, Seeded, Seeding
from scrapy_redis_state.store.runner import run
from scrapy_redis_state.store.server_check import check_server
from tests.crawl.crawls import Crawls
from tests.processes import REPOSITORY, Programs
from tests.servers import Server
from tests.site import Site
from tests.store.crawls import Crawl, page
from tests.store.fixtures import crawl
from tests.store.users import documented_user, url_of_user

__all__ = ["crawl"]

LUA = REPOSITORY / "scrapy_redis_state" / "store" / "lua"
PROBE = LUA / "include" / "rights.lua"
START_PROBE = LUA / "start_check.lua"

Act = Callable[..., redis.Redis]


@pytest.fixture
def user(server: Server) -> Iterator[Act]:
    """``user("-sadd")``: a client of the documented user, with more rules."""
    admin = server.client()
    clients = []

    def with_rules(*rules: str) -> redis.Redis:
        admin.execute_command("ACL", "DELUSER", "crawler")
        admin.execute_command(*documented_user(), *rules)
        clients.append(sync_client(url_of_user(server)))
        return clients[-1]

    yield with_rules
    for client in clients:
        client.close()
    admin.execute_command("ACL", "DELUSER", "crawler")


def names(path: Any) -> set[str]:
    return set(re.findall(r"'([A-Z]+)'", path.read_text()))


def filter_names(path: Any) -> list[str]:
    return re.findall(r"'(BF\.[A-Z]+)'", path.read_text())


def used_commands(server: Server, *, of_start_keys: bool = False) -> set[str]:
    """What any script may come to call.

    :param of_start_keys: those for start keys, which crawls without any do not need
    """
    paths = [
        path
        for path in LUA.rglob("*.lua")
        if path not in (PROBE, START_PROBE)
        and path.name.startswith("start_") == of_start_keys
    ]
    found = set().union(*map(names, paths))
    info = server.client().execute_command
    return {name for name in found if info("COMMAND INFO", name) != [None]}


def join(client: redis.Redis, crawl: Crawl, **fields: Any) -> Any:
    request = JoinRequest(worker="w", new_token="t", **fields)
    return run(client, scripts.join(crawl.keys, request))


def test_every_command_of_the_scripts_is_asked_for(server: Server) -> None:
    """One that is forgotten would be missed in mid-crawl."""
    missed = used_commands(server) - names(PROBE)
    assert not missed, f"include/rights.lua does not ask for {missed}"
    missed = used_commands(server, of_start_keys=True) - names(PROBE)
    assert missed <= names(START_PROBE)


def test_every_command_of_filters_is_asked_for() -> None:
    """Where a filter tells what was seen; those that move one are another matter."""
    paths = [
        path
        for path in LUA.rglob("*.lua")
        if path != PROBE and not path.name.startswith(("import_", "export_"))
    ]
    found = {name for path in paths for name in filter_names(path)}
    assert "BF.MADD" in found
    assert found == set(filter_names(PROBE))


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_command_that_is_missing_is_named(
    server: Server, crawl_name: str, user: Act, dry_run: bool
) -> None:
    """Each of them, before anything is written, with what gives it to the user."""
    crawl = Crawl(server.client(), crawl_name)
    for name in sorted(used_commands(server)):
        client = user("+exists", f"-{name.lower()}", f"~*{crawl_name}*")
        with pytest.raises(Refused) as caught:
            join(client, crawl, dry_run=dry_run, identity={"seen": "bloom:99:0.1"})
        assert str(caught.value).startswith(
            f"the user may not run {name}: allow it with"
            f" ACL SETUSER <user> +{name.lower()} ("
        )
        assert server.client().keys() == []


def test_all_that_is_missing_is_named_and_the_remedy_works(
    server: Server, crawl_name: str, user: Act
) -> None:
    """Whoever does what the line says may join."""
    crawl = Crawl(server.client(), crawl_name)
    client = user("-@sortedset", "-type", "~*")
    for _ in range(5):
        try:
            reply = join(client, crawl)
        except Refused as error:
            (remedy,) = re.findall(r"(ACL SETUSER .*?) \(", str(error))
            command = remedy.replace("<user>", "crawler").split()
            server.client().execute_command(*command)
        else:
            break
    assert reply.status is JoinStatus.CREATED


def test_a_key_that_is_missing_is_named_and_the_remedy_works(
    server: Server, crawl_name: str, user: Act
) -> None:
    """All of the crawl, or one that somebody left out of a list."""
    crawl = Crawl(server.client(), f"{crawl_name}:a*b")
    client = user()
    with pytest.raises(Refused) as caught:
        join(client, crawl)
    pattern = rf"~*:{{{crawl_name}:a\*b}}*"
    assert str(caught.value).startswith(
        f"the user may not use the key 'crawl:{{{crawl.keys.crawl}}}':"
        f" allow it with ACL SETUSER <user> {pattern} ("
    )
    client = user(f"~crawl:{{{crawl_name}*", f"~frontier:{{{crawl_name}*")
    with pytest.raises(Refused, match="use the key 'requests:"):
        join(client, crawl)
    client = user(pattern)
    assert join(client, crawl).status is JoinStatus.CREATED


def test_with_a_key_prefix_the_pattern_is_for_all_under_it(
    server: Server, crawl_name: str, user: Act
) -> None:
    """As the documentation has it."""
    crawl = Crawl(server.client(), crawl_name)
    crawl.keys = type(crawl.keys)(crawl_name, f"{crawl_name}:")
    with pytest.raises(Refused, match=rf"SETUSER <user> ~{crawl_name}:\* "):
        join(user(), crawl)


def test_asking_changes_nothing(crawl: Crawl, crawl_name: str, user: Act) -> None:
    """Neither in a crawl under way, nor the time that is left to a finished one."""
    client = user(f"~*{crawl_name}*")
    member = crawl.member("w1", seeding=Seeding.OPEN)
    token = member.exchange(seeder=True).summary.seed_token
    member.exchange(page("a", seed=b"a", seed_token=token))
    with crawl.unchanged():
        assert join(client, crawl, dry_run=True).status is JoinStatus.JOINED
    member.exchange(Seeded(token))
    member.leave()
    crawl.finish(seeding=Seeding.OPEN)
    with crawl.unchanged():
        assert join(client, crawl, dry_run=True).status is JoinStatus.CREATED
    assert all(crawl.client.pttl(key) > 0 for key in crawl.contents())


def test_a_key_that_is_not_ours_is_not_touched(
    server: Server, crawl_name: str, user: Act
) -> None:
    """Whatever it is, and however long it is to live."""
    crawl = Crawl(server.client(), crawl_name)
    client = user(f"~*{crawl_name}*")
    for key in crawl.keys.for_script(1):
        is_set = key in (crawl.keys.named("seeds"), crawl.keys.seen(1))
        (crawl.client.rpush if is_set else crawl.client.sadd)(key, "theirs")
        crawl.client.pexpire(key, 100_000)
        before = crawl.client.dump(key)
        assert join(client, crawl).status is JoinStatus.WRONG_TYPE
        assert crawl.client.dump(key) == before
        assert crawl.client.pttl(key) > 0
        crawl.client.delete(key)


@pytest.mark.parametrize("command", ["eval", "evalsha"])
def test_scripts_as_such_are_asked_for(
    server: Server, user: Act, crawl_name: str, command: str
) -> None:
    """Also by a server that knows the script, and needs EVALSHA alone."""
    crawl = Crawl(server.client(), crawl_name)
    client = user(f"-{command}", "~*")
    text = (
        f"may not run {command.upper()}: allow it with ACL SETUSER <user> +{command} "
    )
    if command == "eval":
        (found, *_) = check_server(client)
        assert found.fatal
        assert text in found.text
    else:
        with pytest.raises(Refused, match=re.escape(text)):
            join(client, crawl)


@pytest.mark.one_server
def test_a_crawl_is_refused_before_it_begins(
    server: Server, programs: Programs, crawl_name: str, user: Act
) -> None:
    """In the last line that the user sees, and with an exit status that tells."""
    user("-zpopmax", f"~*{crawl_name}*")
    crawls = Crawls(programs, server, crawl_name)
    with Site() as site:
        worker = crawls.start(
            "shop",
            site=site.url,
            settings={"REDIS_STATE_URL": url_of_user(server)},
        )
        assert worker.wait() == 1
        assert not site.visits
    last = worker.output.splitlines()[-1]
    assert "the user may not run ZPOPMAX: allow it with ACL SETUSER" in last


def test_the_user_is_not_named(server: Server, crawl_name: str, user: Act) -> None:
    """It is part of the login, which nothing shows; servers do."""
    client = user("-hset", "~*")
    with pytest.raises(Refused) as caught, translated():
        client.hset(crawl_name, "name", "value")
    assert "hset" in str(caught.value)
    assert "crawler" not in str(caught.value)
