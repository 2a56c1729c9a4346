"""Request <-> bytes: a request comes back equal, of the same class, or is refused.

What a payload may make a worker do: build one of the allow-listed classes of requests,
set its fields to plain values, and name methods of the running spider as callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from scrapy import Request, Spider
from scrapy.http import Headers
from scrapy.http.request import NO_CALLBACK

from scrapy_redis_state.codec import (
    MAX_BYTES,
    Codec,
    NotDecodable,
    NotEncodable,
    UnknownCode,
    describe_payload,
    payload,
)
from scrapy_redis_state.codec.label import without_login
from scrapy_redis_state.codec.message import decoded_fields
from scrapy_redis_state.requests.live_values import kind_for, spider_kinds
from scrapy_redis_state.requests.message_hook import MessageHook
from scrapy_redis_state.requests.references import (
    RequestClass,
    RequestClasses,
    SpiderMethods,
    class_path,
    name_of,
)

__all__ = [
    "NotDecodable",
    "NotEncodable",
    "RequestSerializer",
    "UnknownCode",
    "describe_payload",
]

_VERBATIM = "verbatim_url"
"""Key of meta that has Scrapy take a URL as it is."""

_LABEL = 200
"""Characters of a request in messages."""

_DEFAULTS = payload.defaults()

_SCRAPYS = frozenset({None, *payload.SCRAPY_CLASSES})
"""Request and Scrapy's own subclasses: their ``__init__`` is known to take all back."""


class Stamps(Protocol):
    """Knows the sessions of requests."""

    def stamp(self, request: Request) -> list[Any] | None:
        """What to store with a request, if anything; plain values."""

    def remember(self, request: Request, stamp: list[Any]) -> None:
        """It was stored with this request; anyone may have written it."""


class RequestSerializer:
    """Writes and reads the requests of one running spider.

    ``request_classes`` are subclasses of Request that payloads may name besides those
    defined in loaded modules. ``max_bytes`` bounds a request before compression.
    ``stamps`` says which state of its session the maker of a request knows, and is told
    when the request is read. ``hook`` makes requests of what was pushed; without one,
    that has to describe a request.
    """

    def __init__(
        self,
        spider: Spider,
        request_classes: Iterable[type[Request]] = (),
        max_bytes: int = MAX_BYTES,
        stamps: Stamps | None = None,
        hook: MessageHook | None = None,
    ) -> None:
        self._hook = hook
        self._stamps = stamps
        self._max_bytes = max_bytes
        self._methods = SpiderMethods(spider)
        self._classes = RequestClasses(request_classes)
        self._rebuilt: set[type[Request]] = set()
        self._codec = Codec(spider_kinds(spider, self._methods), kind_for)

    def encode(self, request: Request) -> bytes:
        """Return the payload of a request.

        :raises NotEncodable: the text names request, field, value and remedy.
        """
        try:
            known = self._classes.of(type(request))
            fields = self._fields(request, known)
            if self._stamps and (stamp := self._stamps.stamp(request)):
                fields[payload.SESSION] = stamp
            data = payload.encode_fields(self._codec, fields, self._max_bytes)
            if known.code not in _SCRAPYS and known.cls not in self._rebuilt:
                self._check_rebuilding(request, known, data)
        except NotEncodable as error:
            raise NotEncodable(f"{_label(request)}: {error}") from error
        except Exception as error:
            # Properties of users' classes, and whatever else a stored value may do.
            raise NotEncodable(
                f"{_label(request)}: cannot be read: {error!r}"
            ) from error
        return data

    def decode(self, data: bytes) -> Request:
        """Return the request of a payload.

        :raises NotDecodable: nobody can read it.
        :raises UnknownCode: it names what this worker's code lacks.
        :raises HookFailed: the spider could not make a request of a message.
        :raises NothingWanted: the spider makes no request of this one.
        """
        fields: dict[int, Any] = {}
        try:
            packed = payload.unseal(data, self._max_bytes)
            fields = payload.check(self._codec.unpack(packed))
            if payload.MESSAGE not in fields:
                return self._request(dict(fields))
            message = fields[payload.MESSAGE]
            if self._hook is not None:
                return self._hook(message)
            return self._request(decoded_fields(message))
        except (NotDecodable, UnknownCode) as error:
            raise type(error)(f"stored request{_url_of(fields)} {error}") from error

    def _request(self, fields: dict[int, Any]) -> Request:
        if fields.get(payload.DESCRIBED):
            raise NotDecodable("could not be stored: only its description was")
        known = self._classes.get(fields.pop(payload.CLASS, None))
        attributes = fields.pop(payload.ATTRIBUTES, {})
        state = fields.pop(payload.STATE, {})
        stamp = fields.pop(payload.SESSION, None)
        for number in (payload.CALLBACK, payload.ERRBACK):
            if number in fields:
                fields[number] = self._method(fields[number])
        try:
            request = _build(known, fields, attributes, state)
        except (NotDecodable, UnknownCode):
            raise
        except Exception as error:
            # Anyone may have written the fields; classes check them as they like.
            raise NotDecodable(
                f"cannot be made a {class_path(known.cls)}: {error!r}"
            ) from error
        if self._stamps and stamp:
            self._stamps.remember(request, stamp)
        return request

    def describe(self, request: Request) -> bytes:
        """Return a payload that tells of a request that cannot be encoded.

        It is for people to read (``describe_payload``) and never decoded. Never raises.
        """
        readers: dict[int, Callable[[], Any]] = {
            payload.URL: lambda: str(request.url)[:8192],
            payload.METHOD: lambda: str(request.method),
            payload.PRIORITY: lambda: int(request.priority),
            payload.CLASS: lambda: class_path(type(request)),
            payload.CALLBACK: lambda: _named(request.callback),
            payload.ERRBACK: lambda: _named(request.errback),
        }
        fields: dict[int, Any] = {payload.DESCRIBED: True, payload.URL: ""}
        for number, read in readers.items():
            try:
                fields[number] = self._codec.wire(read())
            except Exception:  # noqa: BLE001, S112 - as much as there is
                continue
        return payload.encode_fields(self._codec, fields)

    def _fields(self, request: Request, known: RequestClass) -> dict[int, Any]:
        values = {
            payload.URL: request.url,
            payload.CALLBACK: self._stored_callback(request.callback, "callback"),
            payload.METHOD: request.method,
            payload.HEADERS: dict(request.headers),
            payload.BODY: request.body,
            payload.COOKIES: request.cookies,
            payload.META: _stored_meta(request.meta),
            payload.ENCODING: request.encoding,
            payload.PRIORITY: _stored_priority(request.priority),
            payload.DONT_FILTER: request.dont_filter,
            payload.ERRBACK: self._stored_callback(request.errback, "errback"),
            payload.FLAGS: request.flags,
            payload.CB_KWARGS: request.cb_kwargs,
        }
        fields = {n: v for n, v in values.items() if v != _DEFAULTS.get(n)}
        for number, value in fields.items():
            types = payload.TYPES.get(number)
            if types and type(value) not in types:
                expected = types[0].__name__
                problem = f"is of type {type(value).__qualname__}, not {expected}"
                raise NotEncodable(problem, payload.NAMES[number])
        if known.code is not None:
            fields[payload.CLASS] = known.code
            self._add_own(fields, request, known)
        return fields

    def _add_own(
        self, fields: dict[int, Any], request: Request, known: RequestClass
    ) -> None:
        if known.attributes:
            own = {name: getattr(request, name) for name in known.attributes}
            fields[payload.ATTRIBUTES] = own
        if state := known.state(request):
            for name in state:
                if not known.may_hold(name):
                    raise NotEncodable(f"hides {name!r} of its class in its instance")
            fields[payload.STATE] = state

    def _check_rebuilding(
        self, request: Request, known: RequestClass, data: bytes
    ) -> None:
        """Refuse what cannot be built again, here and not in another worker.

        Done until it worked once for a class.
        """
        path = class_path(known.cls)
        try:
            copy = self.decode(data)
        except ValueError as error:
            raise NotEncodable(
                f"is of class {path}, whose __init__ does not take its `attributes` "
                f"back ({error})"
            ) from error
        for name in ("url", "method", "body", *known.attributes):
            if getattr(copy, name) != getattr(request, name):
                raise NotEncodable(
                    f"is of class {path}, whose __init__ makes something else of "
                    f"{name!r}"
                )
        self._rebuilt.add(known.cls)

    def _stored_callback(self, function: Any, field: str) -> str | bool | None:
        if function is None:
            return None
        if function is NO_CALLBACK:
            return False
        try:
            return self._methods.name(function)
        except NotEncodable as error:
            error.path = field
            raise

    def _method(self, stored: Any) -> Any:
        return NO_CALLBACK if stored is False else self._methods.get(stored)


def _build(
    known: RequestClass,
    fields: dict[int, Any],
    attributes: dict[Any, Any],
    state: dict[Any, Any],
) -> Request:
    for name in attributes:
        if name not in known.attributes:
            raise UnknownCode(
                f"has an attribute {name!r:.80} that its class lacks here"
            )
    if known.code is not None:
        # Subclasses have other defaults: an XML-RPC request is a POST.
        fields = {**payload.defaults(), **fields}
    values = {payload.NAMES[number]: value for number, value in fields.items()}
    if known.code is None:
        request = _plain_request(values)
    else:
        accepted = {n: v for n, v in values.items() if n in known.cls.attributes}
        request = known.cls(**accepted, **attributes)
    _settle(request, values)
    for name, value in state.items():
        if not known.may_hold(name):
            raise NotDecodable(f"sets {name!r:.80}, which a request may not hold")
        object.__setattr__(request, name, value)
    return request


def _plain_request(values: dict[str, Any]) -> Request:
    """Build a request whose URL Scrapy takes as it is: it was checked when it was made.

    That is most of the time that building one takes. Versions of Scrapy that do not
    know such URLs check it once more.
    """
    meta = values.get("meta", {})
    if _VERBATIM in meta or "encoding" in values:
        return Request(**values)  # of an encoding that is none, the URL is what tells
    request = Request(**{**values, "meta": {**meta, _VERBATIM: True}})
    del request.meta[_VERBATIM]
    return request


def _settle(request: Request, values: dict[str, Any]) -> None:
    """Give a request exactly the stored fields, whatever its ``__init__`` made of them.

    URLs may be verbatim, which older versions of Scrapy do not know; JsonRequest adds
    headers that somebody had deleted; users' classes may raise the priority each time.
    """
    for name, value in values.items():
        if getattr(request, name) == value:
            continue
        if name in {"url", "body", "encoding"}:
            setattr(request, f"_{name}", value)
        elif name in {"meta", "cb_kwargs"}:
            current = getattr(request, name)
            current.clear()
            current.update(value)
        elif name == "headers":
            _settle_headers(request.headers, value)
        else:
            setattr(request, name, value)


def _settle_headers(headers: Headers, stored: dict[Any, Any]) -> None:
    for key, values in stored.items():
        if type(values) is not list or any(
            type(v) is not bytes for v in [key, *values]
        ):
            raise NotDecodable("is damaged: its headers are not bytes")
    headers.clear()
    # Past the class's own methods: names in some encodings, such as UTF-16, are not
    # the same after they are normalised twice.
    dict.update(headers, stored)


def _stored_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Return ``meta`` without the browser page that a failed download left in it.

    A retry opens a new one. A spider that asks for a page by name means that very page.
    """
    if "playwright_page" in meta and "retry_times" in meta:
        return {k: v for k, v in meta.items() if k != "playwright_page"}
    return meta


def _stored_priority(priority: Any) -> Any:
    """Return a plain int for members of an IntEnum, which are equal to theirs."""
    return int(priority) if isinstance(priority, int) else priority


def _url_of(fields: dict[int, Any]) -> str:
    url = fields.get(payload.MESSAGE, {}).get("url") or fields.get(payload.URL)
    return f" {without_login(url)!r:.{_LABEL}}" if url and isinstance(url, str) else ""


def _named(function: Any) -> str | None:
    return None if function is None else name_of(function)


def _label(request: Request) -> str:
    try:
        label = repr(request)
    except Exception:  # noqa: BLE001 - a class of the user's
        label = f"<{type(request).__qualname__}>"
    return label if len(label) <= _LABEL else f"{label[:_LABEL]}..."
