"""TLS: whom the client trusts, and who trusts the client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from scrapy_redis_state.store import CrawlState
from scrapy_redis_state.store.errors import Refused, Unavailable
from tests.conftest import IN_CI
from tests.processes import wait_until
from tests.servers import ServerUnavailableError, _free_port
from tests.store.certificates import Authority
from tests.store.clients import PASSWORD, Call, error_of, wait_for_server
from tests.store.tls import TlsServer, with_files
from tests.store.topologies import MASTER, run_sentinel

StartTls = Callable[..., TlsServer]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def start_tls(authority: Authority) -> Iterator[StartTls]:
    """Starts servers that speak TLS, with more arguments; skips where none can."""
    with ExitStack() as servers:

        def start(*extra_args: str) -> TlsServer:
            try:
                server = TlsServer(authority, extra_args=extra_args)
                servers.enter_context(server)
            except (ServerUnavailableError, AssertionError) as error:
                if IN_CI or not re.search("no redis-server|TLS support", str(error)):
                    raise
                pytest.skip(f"no redis-server that speaks TLS: {error}")
            return server

        yield start


def test_a_trusted_server_is_used(start_tls: StartTls, call: Call) -> None:
    """The URL names the authority that signed the server's certificate."""
    server = start_tls()
    url = f"rediss://{server.address}/0"
    assert call(with_files(url, server.authority.file), "PING")


def test_a_crawl_is_kept_there(start_tls: StartTls, crawl_name: str) -> None:
    """Scripts run over TLS as they do without."""
    with CrawlState.connect(start_tls().url, crawl=crawl_name) as state:
        assert state.push("http://site.example/")
        assert state.size() == 1


def test_a_stranger_is_not(start_tls: StartTls, call: Call, tmp_path: Path) -> None:
    """A certificate that nobody vouches for is refused, not tried again."""
    server = start_tls()
    url = f"rediss://{server.address}/0"
    other = Authority(tmp_path, "other")
    for refused in (url, with_files(url, other.file)):
        error = error_of(call, refused, "PING")
        assert isinstance(error, Refused)
        assert "name its certificate authority with ?ssl_ca_certs=" in str(error)


def test_the_name_counts(start_tls: StartTls, call: Call) -> None:
    """A certificate for another host is refused, unless the URL says not to look."""
    server = start_tls()
    url = with_files(f"rediss://localhost:{server.port}/0", server.authority.file)
    assert isinstance(error_of(call, url, "PING"), Refused)
    assert call(f"{url}&ssl_check_hostname=false", "PING")
    assert call(f"rediss://localhost:{server.port}/0?ssl_cert_reqs=none", "PING")


def test_a_client_can_show_a_certificate(
    start_tls: StartTls, call: Call, tmp_path: Path
) -> None:
    """A server that wants one takes those of its authority, and no others."""
    server = start_tls("--tls-auth-clients", "yes")
    url, trusted = f"rediss://{server.address}/0", server.authority.file
    assert call(with_files(url, trusted, server.authority.issue("worker")), "PING")
    strange = Authority(tmp_path, "other").issue("strange")
    error_of(call, with_files(url, trusted, strange), "PING")


def test_a_missing_certificate_is_named(start_tls: StartTls) -> None:
    """Whether or not the server's words arrive before it closes the connection."""
    server = start_tls("--tls-auth-clients", "yes")
    url = with_files(f"rediss://{server.address}/0", server.authority.file)
    with pytest.raises((Refused, Unavailable), match=r"\?ssl_certfile=FILE"):
        wait_for_server(url, patience_secs=0.5)


def test_files_are_looked_at_before_anything_is_sent(
    call: Call, authority: Authority, tmp_path: Path
) -> None:
    """A file that is missing, not a certificate, or locked is named at once."""
    good, key = authority.issue("good")
    _, locked = authority.issue("locked", passphrase="secret")
    garbage = tmp_path / "garbage"
    garbage.write_text("garbage")
    for option, problem in (
        (f"ssl_ca_certs={tmp_path}/none", "ssl_ca_certs a file that cannot be used"),
        (f"ssl_ca_certs={garbage}", "ssl_ca_certs a file that cannot be used"),
        (f"ssl_certfile={garbage}", "ssl_certfile a file that cannot be used"),
        (f"ssl_certfile={good}&ssl_keyfile={locked}", "without a passphrase"),
        (f"ssl_keyfile={key}", "ssl_keyfile without ssl_certfile"),
    ):
        error = error_of(call, f"rediss://127.0.0.1:1/0?{option}", "PING")
        assert isinstance(error, Refused)
        assert problem in str(error)


def test_a_login_goes_with_it(start_tls: StartTls, call: Call) -> None:
    """User and password are sent over TLS, and refused where they are wrong."""
    server = start_tls()
    files = with_files("", server.authority.file)
    server.client().execute_command(
        "ACL", "SETUSER", "ann@work", "on", f">{PASSWORD}", "+ping"
    )
    for password, right in ((PASSWORD, True), ("TOPSECRET", False)):
        login = f"ann%40work:{quote(password, safe='')}"
        url = f"rediss://{login}@{server.address}/0{files}"
        if right:
            assert call(url, "PING")
        else:
            error = error_of(call, url, "PING")
            assert isinstance(error, Refused)
            assert "TOPSECRET" not in str(error)


def test_plain_text_is_not_understood(start_tls: StartTls, call: Call) -> None:
    """Without TLS, the connection just ends or is not understood."""
    error = error_of(call, f"redis://{start_tls().address}/0", "PING", timeout=1)
    assert isinstance(error, (Refused, Unavailable))


def test_clusters_speak_it_too(start_tls: StartTls, call: Call) -> None:
    """``rediss+cluster://`` is a cluster over TLS."""
    bus = ["--cluster-port", str(_free_port())]
    server = start_tls("--cluster-enabled", "yes", "--tls-cluster", "yes", *bus)
    server.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    url = with_files(f"rediss+cluster://{server.address}", server.authority.file)
    wait_until(
        lambda: b"state:ok" in server.client().execute_command("CLUSTER", "INFO")
    )
    assert call(url, "SET", "key", "1")
    assert call(url, "GET", "key") == b"1"


def test_sentinels_speak_it_too(
    start_tls: StartTls, client_to: Call, tmp_path: Path
) -> None:
    """``rediss+sentinel://`` is TLS to the Sentinels and to their master."""
    server = start_tls()
    port = _free_port()
    certificate, key = server.authority.issue("sentinel")
    config = (
        f"port 0\ntls-port {port}\ntls-replication yes\ntls-auth-clients no\n"
        f"tls-cert-file {certificate}\ntls-key-file {key}\n"
        f"tls-ca-cert-file {server.authority.file}\n"
        f"sentinel monitor {MASTER} 127.0.0.1 {server.port} 1\n"
    )
    url = f"rediss+sentinel://127.0.0.1:{port}/{MASTER}"
    call = client_to(with_files(url, server.authority.file))
    sentinel = run_sentinel(server.program, tmp_path / "sentinel", config)
    try:
        wait_until(lambda: _is_answered(call, "SET", "key", "1"))
    finally:
        sentinel.kill()
    assert server.client().get("key") == b"1"


def _is_answered(call: Call, *command: object) -> bool:
    try:
        call(*command)
    except Unavailable:
        return False
    return True
