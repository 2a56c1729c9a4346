"""Connections to servers.

redis-py's defaults change between its major versions (retries, timeouts, protocol), so
each one that matters is set here. Above all it must never repeat a call by itself: only
the worker knows whether a batch may be sent again.
"""

from __future__ import annotations

import inspect
import ssl
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.credentials import UsernamePasswordCredentialProvider
from redis.retry import Retry

from scrapy_redis_state.store import sentinel
from scrapy_redis_state.store.cluster import AsyncClusterClient, ClusterClient
from scrapy_redis_state.store.errors import Refused
from scrapy_redis_state.store.translate import translate, translated
from scrapy_redis_state.store.url import Address, Node, masked, parse

if TYPE_CHECKING:
    from scrapy_redis_state.store.embedded import Attachment

__all__ = [
    "async_client",
    "masked",
    "refuse_new",
    "sync_client",
    "translate",
    "translated",
]

# Callers bound what they do at a time; a pool that raises when full is no help.
_NO_LIMIT = 2**31

_PARAMETERS = inspect.signature(redis.connection.AbstractConnection).parameters
_NAMELESS: dict[str, Any] = (
    {"driver_info": None}
    if "driver_info" in _PARAMETERS
    else {"lib_name": None, "lib_version": None}
)
"""Has a connection not begin with round trips that tell the server a library's name."""

_CONNECTIONS = {
    "redis": redis.Connection,
    "rediss": redis.SSLConnection,
    "unix": redis.UnixDomainSocketConnection,
    "redis+cluster": redis.Connection,
    "rediss+cluster": redis.SSLConnection,
}
_ASYNC_CONNECTIONS = {
    "redis": redis.asyncio.Connection,
    "rediss": redis.asyncio.SSLConnection,
    "unix": redis.asyncio.UnixDomainSocketConnection,
    "redis+cluster": redis.asyncio.Connection,
    "rediss+cluster": redis.asyncio.SSLConnection,
}


def async_client(
    url: str, *, timeout: float = 5.0, connect_timeout: float = 5.0
) -> redis.asyncio.Redis:
    """A client for one event loop; nothing is sent before the first command.

    ``timeout`` and ``connect_timeout`` are seconds, unless the URL gives others.
    Replies are bytes.

    :raises Refused: if the URL cannot be used.
    """
    address = _address(url)
    options = _options(address, timeout, connect_timeout)
    options |= {"max_connections": _NO_LIMIT, "retry": AsyncRetry(NoBackoff(), 0)}
    if address.scheme.endswith("+cluster"):
        return AsyncClusterClient(
            address.nodes, lambda node: _async_node(address, options, node)
        )
    pool: redis.asyncio.ConnectionPool
    if address.scheme.endswith("+sentinel"):
        pool = sentinel.AsyncPool(address, options, _sentinel_options(address, options))
    elif address.scheme == "embedded":
        pool = _embedded().AsyncPool(
            connection_class=_embedded().AsyncConnection, **options
        )
    else:
        pool = redis.asyncio.ConnectionPool(
            connection_class=_ASYNC_CONNECTIONS[address.scheme], **options
        )
    return redis.asyncio.Redis.from_pool(pool)


def sync_client(
    url: str, *, timeout: float = 5.0, connect_timeout: float = 5.0
) -> redis.Redis:
    """The blocking counterpart of :func:`async_client`."""
    address = _address(url)
    options = _options(address, timeout, connect_timeout)
    options |= {"max_connections": _NO_LIMIT, "retry": Retry(NoBackoff(), 0)}
    if address.scheme.endswith("+cluster"):
        return ClusterClient(
            address.nodes, lambda node: _sync_node(address, options, node)
        )
    pool: redis.ConnectionPool
    if address.scheme.endswith("+sentinel"):
        pool = sentinel.Pool(address, options, _sentinel_options(address, options))
    elif address.scheme == "embedded":
        pool = _embedded().Pool(connection_class=_embedded().Connection, **options)
    else:
        pool = redis.ConnectionPool(
            connection_class=_CONNECTIONS[address.scheme], **options
        )
    return redis.Redis.from_pool(pool)


def refuse_new(url: str) -> None:
    """Say so where no embedded server ever ran: who only looks must not begin one.

    :raises Refused: then, or if the URL cannot be used
    """
    address = _address(url)
    if address.scheme == "embedded":
        _attachment(address).refuse_new()


def _async_node(
    address: Address, options: dict[str, Any], node: Node
) -> redis.asyncio.Redis:
    pool = redis.asyncio.ConnectionPool(
        connection_class=_ASYNC_CONNECTIONS[address.scheme],
        **options | node._asdict(),
    )
    return redis.asyncio.Redis.from_pool(pool)


def _sync_node(address: Address, options: dict[str, Any], node: Node) -> redis.Redis:
    pool = redis.ConnectionPool(
        connection_class=_CONNECTIONS[address.scheme], **options | node._asdict()
    )
    return redis.Redis.from_pool(pool)


def _address(url: str) -> Address:
    try:
        address = parse(url)
        if address.uses_tls:
            _check_tls_files(address.options)
    except ValueError as error:
        raise Refused(f"the URL {masked(url)!r} {error}") from None
    return address


def _check_tls_files(options: dict[str, Any]) -> None:
    # Now: a connection would report a missing file as a server that does not answer,
    # and ask the terminal for the passphrase of a key.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    name = "ssl_ca_certs"
    try:
        if authority := options.get(name):
            context.load_verify_locations(authority)
        name = "ssl_certfile"
        key = options.get("ssl_keyfile")
        if certificate := options.get(name):
            context.load_cert_chain(certificate, key, password=lambda: "")
        elif key:
            raise ValueError("has ssl_keyfile without ssl_certfile: name both")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"names with {name} a file that cannot be used ({reason}): it must be "
            "readable, PEM, and without a passphrase"
        ) from None


def _options(
    address: Address, timeout: float, connect_timeout: float
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": timeout,
        "socket_connect_timeout": connect_timeout,
        "encoding": "utf-8",
        "encoding_errors": "strict",
        "decode_responses": False,
        # RESP 2: replies have one shape in redis-py 5 to 8, and its maintenance
        # notifications and client-side cache, which need RESP 3, stay off.
        "protocol": 2,
        "retry_on_error": [],
        "retry_on_timeout": False,
        "health_check_interval": 0,
    }
    if not address.uses_tls:
        # There the answer to them takes along what TLS sends after its handshake: it
        # would be taken for an answer that nobody has asked for.
        options |= _NAMELESS
    if address.scheme == "embedded":
        place = {n: v for n, v in address.options.items() if n != "directory"}
        return options | place | {"attachment": _attachment(address)}
    if address.scheme != "unix":
        options |= {"socket_keepalive": True, "socket_keepalive_options": {}}
    options |= _login(address.username, address.password)
    if address.uses_tls:
        options |= {
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": address.options.get("ssl_cert_reqs") != "none",
        }
    return options | address.options


def _sentinel_options(address: Address, options: dict[str, Any]) -> dict[str, Any]:
    """For connections to the Sentinels: as to the server, but another login."""
    left_out = {"db", "credential_provider", "client_name", "max_connections"}
    left_out |= {"retry_on_timeout", "retry_on_error"}  # `retry` says it all
    kept = {name: value for name, value in options.items() if name not in left_out}
    return kept | _login(*address.sentinel_login)


def _login(username: str, password: str) -> dict[str, Any]:
    if not username and not password:
        return {}
    # Some versions of redis-py show a password in the repr of a client, but not what
    # is inside a provider.
    provider = UsernamePasswordCredentialProvider(username or None, password or None)
    return {"credential_provider": provider}


def _attachment(address: Address) -> Attachment:
    directory = address.options["directory"]
    if not directory:
        raise ValueError(
            "embedded: needs a directory outside of Scrapy: embedded:/path/to/directory"
        )
    attachment: Attachment = _embedded().Attachment(directory)
    return attachment


def _embedded() -> ModuleType:
    # Not before it is wanted: it needs fcntl, which not every system has.
    try:
        return import_module("scrapy_redis_state.store.embedded")
    except ImportError:
        raise ValueError(
            "embedded: works on Linux and macOS only: use the URL of a server that runs"
        ) from None
