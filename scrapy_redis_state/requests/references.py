"""What a payload may name: methods of the running spider, and classes already loaded.

A payload comes from a server that others may write to. So nothing in it is imported,
and no attribute is read before it is known to be a method or a class of a kind that a
spider could have stored.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeVar

from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest, XmlRpcRequest

from scrapy_redis_state.codec import NotDecodable, NotEncodable, UnknownCode

NOT_CALLBACKS = frozenset(dir(Spider)) | {"closed", "start_requests"}
NOT_CALLBACKS -= {"parse", "_parse"}
"""What Scrapy calls on a spider in other roles, also where a project overrides it.

A payload that says ``callback: "close"`` or ``"from_crawler"`` was not made by a spider
that wanted its response there; it is how a forged one would reach beyond callbacks.
"""

_MISSING = object()


class SpiderMethods:
    """Names of what may be a callback, on one spider.

    That is each method of the spider's class and its bases below ``scrapy.Spider``
    (mixins, private, static and decorated ones too), ``parse`` and ``_parse``, and each
    method of another object that the spider has as an attribute of its own.
    """

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        self._names: dict[Callable[..., Any], str] = {}
        self._of_class: set[str] = set()

    def name(self, method: Callable[..., Any]) -> str:
        """Return the attribute of the spider that is ``method``.

        :raises NotEncodable: there is none.
        """
        try:
            name = self._names.get(method)
        except TypeError:  # not hashable
            name = None
        if name is not None and getattr(self._spider, name, None) == method:
            return name
        for name in self._candidates(method):
            if self._is_method(name) and getattr(self._spider, name) == method:
                if name in self._of_class:  # an instance's own come and go
                    self._names[method] = name
                return name
        raise NotEncodable(
            f"is {name_of(method)}, which is not a method of spider "
            f"{self._spider.name!r} that other workers could find by its name; use "
            "self.<method> and pass what it needs in cb_kwargs"
        )

    def get(self, name: Any) -> Callable[..., Any]:
        """Return the spider's method of that name.

        :raises NotDecodable: it cannot be the name of a callback.
        :raises UnknownCode: the spider has no such method.
        """
        if not _may_be_callback(name):
            raise NotDecodable(f"names {name!r:.80}, which no callback is called")
        if not self._is_method(name):
            raise UnknownCode(
                f"names a method {name!r} that spider {self._spider.name!r} lacks here"
            )
        method: Callable[..., Any] = getattr(self._spider, name)
        return method

    def _candidates(self, method: Callable[..., Any]) -> Iterator[str]:
        own = getattr(method, "__name__", None)
        if isinstance(own, str):
            yield own
        yield from list(vars(self._spider))
        for cls in type(self._spider).__mro__:
            yield from vars(cls)

    def _is_method(self, name: str) -> bool:
        """Tell whether reading the attribute gives a method and runs no property."""
        own = vars(self._spider).get(name)
        if own is None and name in self._of_class:
            return True
        if not _may_be_callback(name):
            return False
        found = inspect.getattr_static(self._spider, name, None)
        if isinstance(found, (MethodType, classmethod, staticmethod)):
            is_method = True
        else:
            # A function, or what a decorator made of one. A function that the instance
            # alone has is a closure: nothing tells that other workers have the same.
            binds = callable(found) and hasattr(type(found), "__get__")
            is_method = binds and found is not own
        if is_method and own is None:
            self._of_class.add(name)
        return is_method


def _may_be_callback(name: Any) -> bool:
    return (
        type(name) is str
        and name.isidentifier()
        and name not in NOT_CALLBACKS
        and not (name.startswith("__") and name.endswith("__"))
    )


def name_of(function: Any) -> str:
    """Return how to call a function in a message, whatever it is."""
    inner = getattr(function, "__func__", function)
    name = getattr(inner, "__qualname__", None)
    if not isinstance(name, str):
        return f"an object of type {type(function).__qualname__}"
    return f"{getattr(inner, '__module__', '?')}.{name}"


_Class = TypeVar("_Class", bound=type)


def class_path(cls: type) -> str:
    """Return the name by which ``loaded_class`` finds a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def loaded_class(path: Any, base: _Class) -> _Class:
    """Return the subclass of ``base`` that a loaded module defines under this path.

    Nothing is imported, and no code of modules or classes runs.

    :raises UnknownCode: no such module is loaded, or it has no such name.
    :raises NotDecodable: the name stands for something else.
    """
    if type(path) is not str or ":" not in path:
        raise NotDecodable(f"names {path!r:.80}, which is no class")
    module_name, _, qualname = path.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        # Not getattr: modules may import more of themselves when asked for a name.
        space = object.__getattribute__(found, "__dict__") if found is not None else {}
        found = space.get(part)
        if found is None:
            raise UnknownCode(
                f"names class {path!r:.200}, which is not loaded here; import its "
                "module in the spider's"
            )
        if not issubclass(type(found), type):
            break
    if not issubclass(type(found), type) or base not in type.mro(found):
        raise NotDecodable(f"names {path!r:.200}, which is no {base.__name__}")
    if class_path(found) != path:
        raise NotDecodable(f"names {path!r:.200}, which is {class_path(found)} really")
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class RequestClass:
    """What has to be stored of a request of one class."""

    cls: type[Request]
    code: int | str | None
    """How payloads name it; None for Request itself."""
    attributes: tuple[str, ...]
    """Names in its ``attributes`` that not every request has."""
    slots: tuple[str, ...]
    """Slots it adds that its ``attributes`` do not cover."""
    covered: frozenset[str]
    """Names in an instance's ``__dict__`` that its ``attributes`` cover."""

    def state(self, request: Request) -> dict[str, Any]:
        """Return what an instance holds besides its ``attributes``."""
        state = {name: getattr(request, name, _MISSING) for name in self.slots}
        state.update(getattr(request, "__dict__", {}))
        return {
            name: value
            for name, value in state.items()
            if value is not _MISSING and name not in self.covered
        }

    def may_hold(self, name: Any) -> bool:
        """Tell whether ``state`` may contain a name (no method or property of it)."""
        if type(name) is not str or not name.isidentifier():
            return False
        if name in self.slots:
            return True
        if hasattr(Request, name):
            return False
        found = inspect.getattr_static(self.cls, name, None)
        return not hasattr(type(found), "__get__") and name not in self.covered


class RequestClasses:
    """The classes that stored requests may have.

    Request, Scrapy's own subclasses, those given, and any subclass that a module which
    is loaded defines.
    """

    def __init__(self, given: Iterable[type[Request]] = ()) -> None:
        scrapys = {Request: None, FormRequest: 1, JsonRequest: 2, XmlRpcRequest: 3}
        self._by_class = {cls: _request_class(cls, n) for cls, n in scrapys.items()}
        self._by_class.update({c: _request_class(c, class_path(c)) for c in given})
        self._by_code = {known.code: known for known in self._by_class.values()}

    def of(self, cls: type[Request]) -> RequestClass:
        """Return the entry of a class.

        :raises NotEncodable: other workers could not find it by its name.
        """
        known = self._by_class.get(cls)
        if known is None:
            path = class_path(cls)
            try:
                found = loaded_class(path, Request)
            except ValueError:
                found = None
            if found is not cls:
                raise NotEncodable(
                    f"is of class {path}, which cannot be found by that name; define "
                    "it at the top level of a module"
                )
            known = self._by_class[cls] = _request_class(cls, path)
        return known

    def get(self, code: Any) -> RequestClass:
        """Return the entry of what a payload names.

        :raises NotDecodable, UnknownCode: there is none.
        """
        if code is not None and type(code) not in {int, str}:
            raise NotDecodable("is damaged: its class is no name")
        known = self._by_code.get(code)
        if known is None:
            if type(code) is int:
                raise UnknownCode(f"names request class {code}, unknown here")
            known = self._by_code[code] = self.of(loaded_class(code, Request))
        return known


def _request_class(cls: type[Request], code: int | str | None) -> RequestClass:
    own = tuple(name for name in cls.attributes if name not in Request.attributes)
    classes = cls.__mro__[: cls.__mro__.index(Request)]
    covered = {name for each in own for name in _places(each, classes)}
    slots = (slot for each in classes for slot in _slots(each))
    return RequestClass(
        cls=cls,
        code=code,
        attributes=own,
        slots=tuple(slot for slot in slots if slot not in covered),
        covered=frozenset(covered),
    )


def _places(attribute: str, classes: Iterable[type]) -> Iterator[str]:
    """Where instances usually keep an attribute that their class has a property for."""
    yield from (attribute, f"_{attribute}")
    yield from (_mangled(f"__{attribute}", cls) for cls in classes)


def _slots(cls: type) -> Iterator[str]:
    slots = vars(cls).get("__slots__", ())
    for slot in (slots,) if isinstance(slots, str) else slots:
        if slot not in {"__dict__", "__weakref__"}:
            yield _mangled(slot, cls)


def _mangled(name: str, cls: type) -> str:
    """Return the real name of what a class calls ``name`` (as ``self.__name``)."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if private else name
