"""Messages of start keys: each leaves its key in the step that stores its requests."""

from __future__ import annotations

import pytest

from scrapy_redis_state.store import start_keys
from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.errors import Refused, Unavailable
from scrapy_redis_state.store.keys import CrawlKeys
from scrapy_redis_state.store.messages import Answer, StoreDead
from scrapy_redis_state.store.seen import SeenSet
from scrapy_redis_state.store.start_keys import Message, Move, check_start_keys
from tests.store.crawls import Crawl, page, unfiltered
from tests.store.seen_crawls import join
from tests.store.users import PREFIX, documented_user, url_of_user

STORED, DUPLICATE = Answer.STORED, Answer.DUPLICATE


@pytest.fixture
def key(crawl):
    """A start key of the crawl."""
    return f"start:{{{crawl.keys.crawl}}}"


@pytest.fixture
def token(crawl):
    """Of the crawl's first generation."""
    return crawl.member().joined.token


def look(crawl, *keys, most=10):
    return crawl.run(start_keys.look(keys, most))


def take(crawl, token, *moves):
    """By one that knows the epoch."""
    return crawl.run(start_keys.take(crawl.keys, crawl.epoch, token, moves))


def move(key, text, *operations):
    return Move(Message(key, text), operations)


def fill(crawl, key, kind, *texts):
    """The first is next, or has the highest score."""
    if kind == "list":
        crawl.client.rpush(key, *texts)
    elif kind == "set":
        crawl.client.sadd(key, *texts)
    else:
        scores = range(len(texts), 0, -1)
        crawl.client.zadd(key, dict(zip(texts, scores, strict=True)))


def left(crawl, key):
    """The messages that lie in a key."""
    return {message.text for message in look(crawl, key)}


@pytest.mark.parametrize("kind", start_keys.TYPES)
def test_a_message_leaves_its_key_when_its_request_is_stored(kind, crawl, key, token):
    """Of whatever type the key is."""
    fill(crawl, key, kind, b"a", b"b", b"c")
    assert left(crawl, key) == {b"a", b"b", b"c"}
    reply = take(crawl, token, move(key, b"a", page("a")), move(key, b"c", page("c")))
    assert (reply.status, reply.answers) == ("ok", ((STORED,), (STORED,)))
    assert left(crawl, key) == {b"b"}
    assert crawl.summary.pending == 2


@pytest.mark.parametrize("kind", start_keys.TYPES)
def test_a_message_that_another_took_makes_nothing(kind, crawl, key, token):
    """Two workers looked at the same messages; each is stored once."""
    fill(crawl, key, kind, b"a", b"b")
    one, two = move(key, b"a", unfiltered("a")), move(key, b"b", unfiltered("b"))
    assert take(crawl, token, one).answers == ((STORED,),)
    assert take(crawl, token, one, two).answers == (None, (STORED,))
    assert take(crawl, token, one, two).answers == (None, None)
    assert crawl.summary.pending == 2


def test_equal_messages_of_a_list_are_as_many_as_they_are(crawl, key, token):
    """Each of them is taken once."""
    fill(crawl, key, "list", b"a", b"a", b"a")
    moves = [move(key, b"a", unfiltered("a"))] * 2
    assert take(crawl, token, *moves).answers == ((STORED,), (STORED,))
    assert take(crawl, token, *moves).answers == ((STORED,), None)
    assert crawl.summary.pending == 3


def test_one_message_may_make_several_requests_or_none(crawl, key, token):
    """All of them in the step in which it leaves, whatever becomes of them."""
    fill(crawl, key, "list", b"several", b"none", b"bad")
    reply = take(
        crawl,
        token,
        move(key, b"several", page("a"), page("a"), page("b")),
        move(key, b"none"),
        move(key, b"bad", StoreDead(b"bad", "it is bad")),
    )
    assert reply.answers == ((STORED, DUPLICATE, STORED), (), (STORED,))
    assert left(crawl, key) == set()
    assert (crawl.summary.pending, crawl.summary.dead) == (2, 1)


def test_the_first_key_that_has_messages_is_next(crawl, key):
    """Those of a sorted set with their scores, highest first."""
    second = key + "2"
    fill(crawl, second, "zset", b"high", b"low")
    found = look(crawl, key, second)
    assert found == [Message(second, b"high", 2), Message(second, b"low", 1)]
    fill(crawl, key, "list", b"a", b"b")
    assert look(crawl, key, second, most=1) == [Message(key, b"a")]
    assert look(crawl, key + "3") == []


def test_what_belongs_to_another_generation_stays(crawl, key, token):
    """And so does what comes when the crawl is over: it waits for the next run."""
    fill(crawl, key, "list", b"a")
    one = move(key, b"a", page("a"))
    assert take(crawl, "of another", one).status == "over"
    crawl.later()
    crawl.finish()
    assert take(crawl, token, one).status == "over"
    assert left(crawl, key) == {b"a"}
    assert crawl.summary.pending == 0


def test_an_old_epoch_is_told_apart(crawl, key, token):
    """Nothing is done before it is sent with the current one."""
    fill(crawl, key, "list", b"a")
    call = start_keys.take(
        crawl.keys, crawl.epoch + 1, token, [move(key, b"a", page("a"))]
    )
    reply = crawl.run(call)
    assert (reply.status, reply.epoch) == ("epoch", crawl.epoch)
    assert left(crawl, key) == {b"a"}


def test_a_packed_seen_set_is_found_beside_the_start_key(server, crawl_name):
    """Its keys and the start key do not get mixed up."""
    crawl = Crawl(server.client(), crawl_name)
    crawl.keys = CrawlKeys(crawl_name, seen_set=SeenSet("packed", 10_000))
    key = f"start:{{{crawl_name}}}"
    token = crawl.member(identity={"seen": "packed:10000"}).joined.token
    fill(crawl, key, "list", b"a", b"b", b"a again")
    moves = [
        move(key, text, page(text.decode()[0])) for text in (b"a", b"b", b"a again")
    ]
    assert take(crawl, token, *moves).answers == ((STORED,), (STORED,), (DUPLICATE,))
    assert left(crawl, key) == set()
    assert crawl.fsck() == []


def test_a_server_without_room_keeps_the_messages(fresh_server, crawl_name):
    """They are taken when there is room again."""
    client = fresh_server().client()
    crawl, key = Crawl(client, crawl_name), "start"
    token = crawl.member().joined.token
    fill(crawl, key, "list", b"a")
    client.config_set("maxmemory", 1)
    assert take(crawl, token, move(key, b"a", page("a"))).status == "full"
    client.config_set("maxmemory", 0)
    assert left(crawl, key) == {b"a"}
    assert take(crawl, token, move(key, b"a", page("a"))).answers == ((STORED,),)


def test_a_seen_set_without_room_keeps_the_messages(new_crawl):
    """A Bloom filter takes no more when its next part is larger than the memory."""
    crawl = new_crawl("bloom")
    token, key = join(crawl).joined.token, f"start:{{{crawl.keys.crawl}}}"
    client, seen = crawl.client, crawl.keys.seen(crawl.epoch)
    client.delete(seen)
    client.execute_command("BF.RESERVE", seen, 0.01, 1, "NONSCALING")
    fill(crawl, key, "list", b"a", b"b", b"c")
    moves = [move(key, b"a", page("a")), move(key, b"b", page("b"))]
    assert take(crawl, token, *moves).answers == ((STORED,), None)
    assert left(crawl, key) == {b"b", b"c"}
    assert take(crawl, token, move(key, b"c", unfiltered("c"))).answers == ((STORED,),)
    assert left(crawl, key) == {b"b"}


def test_a_message_that_stays_leaves_nothing_that_comes_again(new_crawl):
    """However often it is tried while the seen set refuses one of its requests."""
    crawl = new_crawl("bloom")
    token, key = join(crawl).joined.token, f"start:{{{crawl.keys.crawl}}}"
    client, seen = crawl.client, crawl.keys.seen(crawl.epoch)
    client.delete(seen)
    client.execute_command("BF.RESERVE", seen, 0.01, 1, "NONSCALING")
    fill(crawl, key, "list", b"a")
    one = move(key, b"a", unfiltered("u"), page("a"), StoreDead(b"x", "bad"), page("b"))
    for _ in range(3):
        assert take(crawl, token, one).answers == (None,)
    assert (crawl.summary.pending, crawl.summary.dead) == (1, 0)
    client.delete(seen)
    expected = (STORED, STORED, STORED, STORED)
    assert take(crawl, token, one).answers == (expected,)
    assert left(crawl, key) == set()


def test_a_key_of_another_type_is_refused(crawl, key, token):
    """At the start of a crawl, and should it become one later."""
    crawl.client.hset(key, "a", "b")
    (finding,) = check_start_keys(crawl.client, crawl.keys, [key])
    assert finding.fatal
    assert f"{key!r} is a hash, not a list" in finding.text
    reply = take(crawl, token, move(key, b"a", page("a")))
    assert (reply.status, reply.wrong) == (
        "wrong_type",
        (key, "hash", "list, set or zset"),
    )
    (finding,) = check_start_keys(crawl.client, crawl.keys, [crawl.key("frontier")])
    assert "is a key of the crawl itself" in finding.text


def test_keys_that_can_be_used_are_not_found_fault_with(crawl, key):
    """Whether they are there or not; the check changes nothing."""
    fill(crawl, key, "list", b"", b"a")
    fill(crawl, key + "2", "set", b"", b"a")
    keys = [key, key + "2", key + "3"]
    before = crawl.client.dump(key), crawl.client.smembers(key + "2")
    assert check_start_keys(crawl.client, crawl.keys, keys) == []
    assert (crawl.client.dump(key), crawl.client.smembers(key + "2")) == before


def test_a_key_in_another_slot_of_a_cluster_is_refused():
    """With a name that would do; nothing needs to be asked of the cluster for it."""
    keys = CrawlKeys("shop:offers")
    with sync_client("redis+cluster://127.0.0.1:1") as client:
        (finding,) = check_start_keys(client, keys, ["start_urls:{other}"])
        assert finding.fatal
        assert "put the crawl id in braces" in finding.text
        with pytest.raises(Unavailable):
            check_start_keys(client, keys, ["start_urls:{shop:offers}"])


def test_rights_that_are_missing_are_named(fresh_server, crawl_name):
    """The commands, and the key, each with the rule to add."""
    server = fresh_server()
    admin = server.client()
    admin.execute_command(*documented_user())
    keys = CrawlKeys(crawl_name, PREFIX)
    start = f"{PREFIX}start"
    with sync_client(url_of_user(server)) as client:
        assert check_start_keys(client, keys, [start]) == []
        with pytest.raises(Refused, match=r"the key 'elsewhere'.*~elsewhere"):
            check_start_keys(client, keys, ["elsewhere"])
        admin.execute_command("ACL", "SETUSER", "crawler", "-lpos", "-lrem")
        with pytest.raises(Refused, match=r"LPOS, LREM.*\+lpos \+lrem"):
            check_start_keys(client, keys, [start])
