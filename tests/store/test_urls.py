"""URLs: which can be used, and what is shown of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_redis_state.store.client import async_client, masked, sync_client
from scrapy_redis_state.store.url import parse

_THREE = [("a", 1), ("b", 26379), ("::1", 3)]


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("", "no known scheme"),
            ("localhost:6379", "no known scheme"),
            ("http://localhost", "no known scheme"),
            ("redis:/localhost", "no known scheme"),
            ("redis://localhost:port", "percent-encode"),
            ("redis://localhost:6379:1", "percent-encode"),
            ("redis://[::1/0", "percent-encode"),
            ("redis://:a/b@localhost", "percent-encode"),
            ("redis://:a#b@localhost", "percent-encode"),
            ("redis://local host", "percent-encode"),
            ("redis://localhost/0\n", "percent-encode"),
            ("redis://localhost/mine", "database number"),
            ("redis://localhost/0/1", "database number"),
            ("redis://localhost/-1", "database number"),
            ("redis://localhost/1?db=2", "twice"),
            ("redis://localhost?db=x", "option db"),
            ("redis://localhost?db=1&db=1", "given twice"),
            ("redis://localhost?decode_responses=True", "unknown"),
            ("redis://localhost?retry_on_timeout=yes", "unknown"),
            ("redis://localhost?ssl_cert_reqs=none", "unknown"),
            ("rediss://localhost?ssl_cert_reqs=maybe", "option ssl_cert_reqs"),
            ("rediss://localhost?ssl_check_hostname=maybe", "ssl_check_hostname"),
            ("redis://localhost?socket_timeout=0", "option socket_timeout"),
            ("redis://localhost?socket_timeout=nan", "option socket_timeout"),
            ("redis://localhost?client_name=", "option client_name"),
            ("unix://", "absolute path"),
            ("unix://relative/path", "absolute path"),
            ("redis+sentinel://localhost", "does not name the master"),
            ("redis+sentinel://localhost/", "does not name the master"),
            ("redis+sentinel://a:1,,b:1/m", "not host:port"),
            ("redis+sentinel://a:1,b:x/m", "not host:port"),
            ("redis+sentinel://a:1/m/mine", "database number"),
            ("redis+sentinel://a:1/m/1?db=2", "twice"),
            ("redis+sentinel://:a/b@c:1,d:1/m", "percent-encode"),
            ("redis+cluster://a:1,:2", "not host:port"),
            ("redis+cluster://a:1/1", "no other than 0"),
            ("redis+cluster://a:1?db=1", "no other than 0"),
            ("redis+cluster://a:1/mine", "database number"),
            ("redis://localhost?sentinel_password=x", "unknown"),
            ("redis+cluster://localhost?ssl_cert_reqs=none", "unknown"),
            ("embedded:/tmp?password=x", "unknown"),
        ],
    )
    def test_urls_that_cannot_be_used(self, url: str, problem: str):
        """A URL is refused where something in it would be ignored or misread."""
        with pytest.raises(ValueError, match=problem) as caught:
            sync_client(url)
        assert "\n" not in str(caught.value)
        with pytest.raises(ValueError, match=problem):
            async_client(url)

    @pytest.mark.parametrize(
        ("url", "options"),
        [
            ("redis://", {"host": "localhost", "port": 6379, "db": 0}),
            ("redis://h:1/2", {"host": "h", "port": 1, "db": 2}),
            ("redis://[::1]:1", {"host": "::1", "port": 1, "db": 0}),
            ("unix:///a%40b?db=1", {"path": "/a@b", "db": 1}),
            (
                "redis://h?socket_timeout=0.5&client_name=a%20b",
                {
                    "host": "h",
                    "port": 6379,
                    "db": 0,
                    "socket_timeout": 0.5,
                    "client_name": "a b",
                },
            ),
            (
                "rediss://h?ssl_check_hostname=False&ssl_ca_certs=/ca.pem",
                {
                    "host": "h",
                    "port": 6379,
                    "db": 0,
                    "ssl_check_hostname": False,
                    "ssl_ca_certs": "/ca.pem",
                },
            ),
        ],
    )
    def test_urls_that_can(self, url: str, options: dict[str, Any]):
        """What a URL leaves out has redis-py's usual value."""
        assert parse(url).options == options

    @pytest.mark.parametrize(
        ("url", "nodes", "master", "database"),
        [
            ("redis+sentinel://a/m", [("a", 26379)], "m", 0),
            ("redis+sentinel:///m", [("localhost", 26379)], "m", 0),
            ("redis+sentinel://a:1,b,[::1]:3/m/2", _THREE, "m", 2),
            ("rediss+sentinel://u:p,w@a:1,b,[::1]:3/m%20x?db=2", _THREE, "m x", 2),
            ("redis+cluster://a:1,b", [("a", 1), ("b", 6379)], "", 0),
            ("rediss+cluster://u:p@a/0", [("a", 6379)], "", 0),
        ],
    )
    def test_urls_of_several_servers(
        self, url: str, nodes: list[tuple[str, int]], master: str, database: int
    ):
        """Hosts are separated by commas; ports have their usual values."""
        address = parse(url)
        assert list(address.nodes) == nodes
        assert address.master == master
        assert address.options == {"db": database}
        if "@" in url:
            assert address.username == "u"
            assert address.password in ("p", "p,w")

    def test_sentinels_may_have_a_login_of_their_own(self):
        """It is not that of the server they watch."""
        address = parse(
            "redis+sentinel://u:p@a/m?sentinel_username=s&sentinel_password=%40x"
        )
        assert (address.username, address.password) == ("u", "p")
        assert address.sentinel_login == ("s", "@x")
        assert address.options == {"db": 0}

    def test_options_of_the_url_win(self):
        """A time limit in the URL is stronger than the caller's."""
        client = sync_client("redis://h?socket_timeout=7", timeout=1)
        options = client.connection_pool.connection_kwargs
        assert options["socket_timeout"] == 7
        assert options["socket_connect_timeout"] == 5


class TestSecrets:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://localhost:6379/0", "redis://localhost:6379/0"),
            ("redis://u:p@h:1/2?db_x", "redis://***"),
            ("redis://u:p@h:1/2", "redis://***@h:1/2"),
            ("redis://:p@[::1]:1", "redis://***@[::1]:1"),
            ("rediss://p@h?client_name=me", "rediss://***@h?client_name=me"),
            ("unix:///s?password=p&db=2", "unix:///s?password=***&db=2"),
            ("redis://:p/q@h", "redis://***"),
            ("redis+sentinel://:p@h", "redis+sentinel://***"),
            ("redis+sentinel://u:p@h:1,i:2/m/3", "redis+sentinel://***@h:1,i:2/m/3"),
            (
                "redis+sentinel://h,i/m?sentinel_username=u&sentinel_password=p",
                "redis+sentinel://h,i/m?sentinel_username=***&sentinel_password=***",
            ),
            ("rediss+cluster://u:p,q@h:1,i", "rediss+cluster://***@h:1,i"),
            ("a crawl id", "a crawl id"),
            ("p@h:6379", "***"),
            ("redis:/:p@h/0", "***"),
            ("embedded:?password=p", "***"),
        ],
    )
    def test_what_is_shown_of_a_url(self, url: str, shown: str):
        """Server and database, and neither user nor password."""
        assert masked(url) == shown

    @given(st.text(max_size=12), st.booleans())
    @example("/0?db=1&client_name=", False)
    @example("1/0", False)
    @example("#", False)
    def test_no_part_of_a_password_is_ever_shown(self, middle: str, encoded: bool):
        """Whatever its characters are, and whether or not they are encoded."""
        secret = f"FIRST{middle}LAST"
        if encoded:
            secret = quote(secret, safe="", errors="replace")
        for url in (
            f"redis://u:{secret}@h:1/2",
            f"unix://:{secret}@/path",
            f"redis+sentinel://u:{secret}@h:1,i:2/master",
            f"rediss+cluster://u:{secret}@h:1,i:2",
        ):
            assert not {"FIRST", "LAST"} & set(_words(masked(url)))

    @given(st.text(st.characters(exclude_characters="&#@"), max_size=12))
    def test_no_part_of_a_password_in_an_option_is_ever_shown(self, middle: str):
        """The same for ``?password=``."""
        url = f"unix:///path?password=FIRST{middle}LAST"
        assert not {"FIRST", "LAST"} & set(_words(masked(url)))


def _words(text: str) -> list[str]:
    return [word for word in ("FIRST", "LAST") if word in text]
