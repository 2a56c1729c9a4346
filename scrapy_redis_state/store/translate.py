"""What errors of redis-py, of the network and of servers mean for a crawl."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError as AsyncMasterNotFoundError
from redis.sentinel import MasterNotFoundError

from scrapy_redis_state.store.errors import (
    CommandFailed,
    RedisStateError,
    Refused,
    Unavailable,
    one_line,
)
from scrapy_redis_state.store.rights import without_user

NO_MASTER = (MasterNotFoundError, AsyncMasterNotFoundError)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of redis-py and of the network inside as errors of this package."""
    try:
        yield
    except (exceptions.RedisError, OSError, EOFError, asyncio.TimeoutError) as error:
        # from None: the original may quote what was sent, a password among it.
        raise translate(error) from None


def translate(error: Exception) -> RedisStateError:
    """Say what an error of redis-py or of the network means.

    ``Unavailable`` may pass by itself; ``Refused`` needs a person; ``CommandFailed`` is
    about the one command.
    """
    if isinstance(error.__cause__, RedisStateError):
        return error.__cause__  # redis-py wraps what the embedded server says
    if isinstance(error, NO_MASTER):
        return _no_master(str(error))
    text = _text(error)
    causes = list(_causes(error))
    for found in _PERMANENT:
        if any(isinstance(e, found.kinds) for e in causes) or _has(text, found.marks):
            return Refused(f"{found.problem} ({text}): {found.remedy}")
    for cause in causes:
        if problem := _tls_refusal(cause):
            return Refused(problem.format(text=text))
    if isinstance(error, _TRANSIENT) or _has(text, _TRANSIENT_MARKS):
        return Unavailable(
            f"no usable answer from the server ({text})",
            answers=isinstance(error, _ANSWERS),
        )
    return CommandFailed(f"the server rejected a command ({text})")


class _Permanent(NamedTuple):
    """An error that stays until a person does something."""

    kinds: tuple[type[Exception], ...]
    marks: tuple[str, ...]
    problem: str
    remedy: str


_PERMANENT = (
    _Permanent(
        (
            exceptions.AuthenticationError,
            exceptions.AuthorizationError,
            exceptions.AuthenticationWrongNumberOfArgsError,
        ),
        ("NOAUTH", "WRONGPASS"),
        "the server refuses the login",
        "put the right user and password into the URL (redis://user:password@host)",
    ),
    _Permanent(
        (exceptions.NoPermissionError,),
        ("NOPERM", "ACL failure in script", "The user executing the script can't"),
        "the user may not do what is needed",
        "give it the commands and keys in its ACL, or use another user",
    ),
    _Permanent(
        (exceptions.InvalidResponse,),
        (),
        "this is not a Redis server, or it speaks TLS",
        "correct host and port, or use rediss:// for TLS",
    ),
    _Permanent(
        (exceptions.AskError,),
        ("MOVED", "ASK"),
        "this is a node of a Redis Cluster, which has the crawl on another node",
        "use redis+cluster:// (rediss+cluster:// for TLS)",
    ),
    _Permanent(
        (),
        ("IMPORTING",),
        "the crawl is being imported, or an import of it broke off",
        "wait for the end of the import; if none runs any more, remove what there is"
        " with 'scrapy redis-state delete' and import it again",
    ),
    _Permanent(
        (),
        ("DB index is out of range", "invalid DB index", "SELECT is not allowed"),
        "the server has no such database",
        "use one that it has, such as 0",
    ),
    _Permanent(
        (),
        ("unknown command 'SENTINEL'", "unknown command `SENTINEL`"),
        "this is a server, and no Sentinel",
        "name Sentinels (port 26379, if they were not told another), or use redis://"
        " (rediss:// for TLS)",
    ),
)

_TRANSIENT = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    OSError,
    EOFError,
    asyncio.TimeoutError,
)

_ANSWERS = (exceptions.ResponseError, exceptions.BusyLoadingError)

# Codes that redis-py has no class for, or that a script's error hides from it.
_TRANSIENT_MARKS = (
    "LOADING",
    "READONLY",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "MISCONF",
    "OOM",
)


def _has(text: str, marks: tuple[str, ...]) -> bool:
    # Redis before 7 wraps a command's error inside a script: "ERR Error running
    # script ...: @user_script: 3: -OOM command not allowed ...". 6.2 leaves out the
    # dash before what an ACL says.
    return any(
        text.startswith(mark) or f" -{mark} " in text or f": {mark} " in text
        for mark in marks
    )


def _text(error: Exception) -> str:
    if isinstance(error, exceptions.TryAgainError):
        return "TRYAGAIN: the crawl is on its way to another node of the cluster"
    text = one_line(error)
    # A server without AUTH answers it with "unknown command" and quotes the password.
    text = text.partition(", with args beginning with")[0].rstrip(". ")
    return without_user(text)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    # redis-py's asyncio connections wrap a refused login into a ConnectionError, and
    # all its connections so wrap what TLS says. An error of ours ends the chain: it
    # belongs to an attempt before.
    while error is not None and not isinstance(error, RedisStateError):
        yield error
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)


_TLS_REFUSALS = (
    (
        ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER"),
        "no TLS connection with this server ({text}): use redis:// if it speaks no "
        "TLS, else name its certificate authority with ?ssl_ca_certs=FILE",
    ),
    (
        ("ALERT", "HANDSHAKE_FAILURE"),
        "the server refuses the TLS connection ({text}): name a client certificate "
        "that it accepts with ?ssl_certfile=FILE&ssl_keyfile=FILE",
    ),
)


def _tls_refusal(error: BaseException) -> str:
    """What to say of an error of TLS that trying again will not cure; else empty."""
    if not isinstance(error, ssl.SSLError):
        return ""
    reason = str(error.reason or "")
    for marks, problem in _TLS_REFUSALS:
        if any(mark in reason for mark in marks):
            return problem
    return ""


def _no_master(text: str) -> RedisStateError:
    # The text has what each Sentinel said, as the repr of an exception.
    name = re.search(r"No master found for '(.*?)'", text)
    master = repr(name[1]) if name else "that name"
    if re.search("AuthenticationError|NoPermissionError|NOAUTH|WRONGPASS", text):
        return Refused(
            "the Sentinels refuse the login: put the right one into the URL "
            "(?sentinel_username=USER&sentinel_password=PASSWORD)"
        )
    return Unavailable(
        f"no Sentinel that answers knows a master {master} that is up; check hosts and "
        "name in the URL"
    )
