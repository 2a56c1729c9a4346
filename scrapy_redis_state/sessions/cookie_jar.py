"""A cookie jar of Scrapy that shares its cookies, each with the session of a site.

The jar itself is what stock Scrapy would have: it holds the cookies of all sites, and
Scrapy's own code fills it and reads it. Beside it is remembered what each session held
when it was last looked at. So two things are all that happens here: what Scrapy's code
changed in the jar is noted, and what others changed in a session is put into the jar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import Cookie as JarCookie
from http.cookiejar import CookieJar as StandardJar
from typing import TYPE_CHECKING

from scrapy.http.cookies import CookieJar

from scrapy_redis_state.sessions.cookie_forms import (
    is_expired,
    key_of,
    to_jar,
    to_stored,
)
from scrapy_redis_state.store.sessions import Changes, CookieKey

if TYPE_CHECKING:
    from scrapy_redis_state.store.sessions import Cookie, Session, Stamp


@dataclass(slots=True)
class Noted:
    """What happened to cookies, in the order in which it happened."""

    changed: dict[CookieKey, Cookie | None] = field(default_factory=dict)
    """Cookies that were set, or deleted (None)."""
    again: dict[CookieKey, Cookie] = field(default_factory=dict)
    """Cookies that were set as they were."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.again)

    def note(self, key: CookieKey, cookie: Cookie | None) -> None:
        self.again.pop(key, None)
        self.changed.pop(key, None)
        self.changed[key] = cookie

    def note_again(self, key: CookieKey, cookie: Cookie) -> None:
        if key not in self.changed:
            self.again[key] = cookie


class NotingJar(StandardJar):
    """Notes what is set and deleted, while it is asked to."""

    _cookies: dict[str, dict[str, dict[str, JarCookie]]]

    def __init__(self, like: StandardJar) -> None:
        super().__init__(like._policy)  # type: ignore[attr-defined]
        # Scrapy has put a lock there that does nothing.
        self._cookies_lock = like._cookies_lock  # type: ignore[attr-defined]
        self.noted: Noted | None = None
        self.deleted_unseen: set[CookieKey] = set()
        """Of what is noted: was deleted and had not been here."""

    def find(self, key: CookieKey) -> JarCookie | None:
        """The cookie of a key."""
        return self._cookies.get(key.domain, {}).get(key.path, {}).get(key.name)

    def set_cookie(self, cookie: JarCookie) -> None:
        if self.noted is not None:
            key, stored = key_of(cookie), to_stored(cookie)
            current = self.find(key)
            if current is None or to_stored(current) != stored:
                self.noted.note(key, stored)
            else:
                self.noted.note_again(key, stored)
        super().set_cookie(cookie)

    def clear(
        self,
        domain: str | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> None:
        if domain is None or path is None or name is None:
            super().clear(domain, path, name)
            return
        if self.noted is not None:
            self._note_deletion(CookieKey(domain, path, name))
        super().clear(domain, path, name)
        self._prune(domain, path)

    def arrange(self, domain: str, path: str, order: dict[CookieKey, int]) -> None:
        """Sort the cookies of one place by what *order* says; others come last."""
        names = self._cookies.get(domain, {}).get(path, {})
        last = len(order) + max(order.values(), default=0)

        def rank(item: tuple[str, JarCookie]) -> int:
            return order.get(CookieKey(domain, path, item[0]), last)

        sorted_ = sorted(names.items(), key=rank)
        names.clear()
        names.update(sorted_)

    def clear_expired_cookies(self) -> None:
        # Tidying up here deletes nothing elsewhere, where it may have been renewed.
        noted, self.noted = self.noted, None
        try:
            super().clear_expired_cookies()
        finally:
            self.noted = noted

    def _prune(self, domain: str, path: str) -> None:
        # Or a crawl of many sites keeps an empty dict for each.
        if not self._cookies[domain][path]:
            del self._cookies[domain][path]
        if not self._cookies[domain]:
            del self._cookies[domain]

    def _note_deletion(self, key: CookieKey) -> None:
        assert self.noted is not None
        if key not in self.noted.changed and self.find(key) is None:
            self.deleted_unseen.add(key)
        self.noted.note(key, None)


@dataclass(slots=True)
class _Part:
    """What of a jar belongs to the session of one site."""

    stamp: Stamp | None = None
    """Which state of the session is in the jar; None: it was never put there."""
    stored: dict[CookieKey, int] = field(default_factory=dict)
    """What that state has, and in which order."""
    owned: set[CookieKey] = field(default_factory=set)
    """That, and what was set here."""
    fresh: set[CookieKey] = field(default_factory=set)
    """What was set here, and is not known to be in the session."""
    skipped: set[CookieKey] = field(default_factory=set)
    """What was changed here when others had changed it as well, so that it stayed as it
    is here until it is known who was later."""

    @property
    def of_store(self) -> tuple[Collection[CookieKey], ...]:
        """What the store has, or will have unless others are later."""
        return self.stored, self.fresh, self.skipped


class SharedCookieJar(CookieJar):
    """A jar, and what is known of the sessions that it is filled from."""

    jar: NotingJar

    def __init__(self) -> None:
        super().__init__()
        self.jar = NotingJar(self.jar)
        self._parts: dict[str, _Part] = {}
        self._owners: dict[CookieKey, str] = {}
        """In which site's session a cookie is, or will be."""

    def stamp(self, site: str) -> Stamp | None:
        """Which state of the session of *site* is in the jar; None: it is not."""
        part = self._parts.get(site)
        return part.stamp if part else None

    @property
    def is_unused(self) -> bool:
        """Nothing would be lost with it."""
        return not self._parts and not self.jar._cookies

    # --- what was changed here -------------------------------------------------------

    @contextmanager
    def noting(self) -> Iterator[Noted]:
        """Note what the code inside, which must not wait, changes in the jar."""
        noted = Noted()
        self.jar.noted = noted
        self.jar.deleted_unseen.clear()
        try:
            yield noted
        finally:
            self.jar.noted = None

    def by_site(self, noted: Noted, host: str, site: str) -> dict[str, Changes]:
        """What is to be changed in which site's session.

        :param host: of the request that changed it; its *site* gets what is new
        """
        changes: dict[str, _ChangesInMaking] = defaultdict(_ChangesInMaking)
        for key, cookie in noted.changed.items():
            if cookie is not None:
                owner = self._owners.get(key, site)
                self._own(key, owner)
                self._parts[owner].fresh.add(key)
                changes[owner].cookies.append(cookie)
                continue
            # Scrapy lets any site delete any cookie; only known ones go elsewhere.
            found = self._owners.get(key, site if _reaches(key.domain, host) else None)
            self._disown(key)
            if found is not None and not self._is_nowhere(key, found):
                changes[found].deleted.append(key)
        return {owner: made.done() for owner, made in changes.items()}

    def again_by_site(self, noted: Noted) -> dict[str, list[Cookie]]:
        """What was set as it is in the session of a site, or will be."""
        found: dict[str, list[Cookie]] = defaultdict(list)
        for key, cookie in noted.again.items():
            part = self._parts.get(owner := self._owners.get(key, ""))
            # What the store had no room for is not offered again.
            if part and any(key in some for some in part.of_store):
                found[owner].append(cookie)
        return found

    def _is_nowhere(self, key: CookieKey, site: str) -> bool:
        """Whether a deletion would only make a key on the server."""
        stamp = self.stamp(site)
        return key in self.jar.deleted_unseen and not (stamp and stamp.epoch)

    # --- what others changed ---------------------------------------------------------

    def apply(
        self,
        session: Session,
        unsaved: frozenset[CookieKey] = frozenset(),
        dropped: Iterable[CookieKey] = (),
    ) -> None:
        """Put into the jar what its session has now.

        :param unsaved: cookies that were changed here and have to stay so for now
        :param dropped: cookies that were changed here in vain
        """
        part = self._parts.setdefault(session.site, _Part())
        doubtful = {*dropped, *(part.skipped - unsaved)}
        if part.stamp != session.stamp:
            doubtful |= part.stored.keys()
            if part.stamp and not _goes_on(session, part.stamp.epoch):
                doubtful |= part.owned
        elif not doubtful:
            return
        current = {
            CookieKey(*cookie.key[:3]): cookie for cookie in session.current_cookies()
        }
        part.skipped = {*part.skipped, *doubtful, *current} & unsaved
        for key in doubtful - current.keys() - unsaved:
            self._remove(key)
        self._put_all(current, unsaved, session.site)
        part.stamp, part.fresh = session.stamp, part.fresh & unsaved
        part.stored = {key: cookie.order for key, cookie in current.items()}

    def forget(self, site: str) -> None:
        """Have nothing of a site's session any more."""
        part = self._parts.get(site, _Part())
        for key in list(part.owned):
            self._disown(key)
            if self.jar.find(key) is not None:
                self.jar.clear(*key[:3])
        self._parts.pop(site, None)

    def _remove(self, key: CookieKey) -> None:
        found = self.jar.find(key)
        # An expired one is not sent, and keeps its place for when it is set again.
        if found is not None and not is_expired(found):
            self._disown(key)
            self.jar.clear(*key[:3])

    def _put_all(
        self, cookies: dict[CookieKey, Cookie], unsaved: frozenset[CookieKey], site: str
    ) -> None:
        part, places = self._parts[site], set()
        for key, cookie in cookies.items():
            if key in unsaved:
                continue
            self._own(key, site)
            found, made = self.jar.find(key), to_jar(cookie)
            if found is None or to_stored(found) != to_stored(made):
                self.jar.set_cookie(made)
            is_moved = key not in part.fresh and part.stored.get(key) != cookie.order
            if found is None or is_moved:
                places.add((key.domain, key.path))
        # Only where others set something: what was set here is where Scrapy put it.
        order = {key: cookie.order for key, cookie in cookies.items()}
        for domain, path in places:
            self.jar.arrange(domain, path, order)

    def _own(self, key: CookieKey, site: str) -> None:
        if self._owners.get(key) != site:
            self._disown(key)
            self._owners[key] = site
            self._parts.setdefault(site, _Part()).owned.add(key)

    def _disown(self, key: CookieKey) -> None:
        site = self._owners.pop(key, None)
        if site is not None and site in self._parts:
            self._parts[site].owned.discard(key)


@dataclass(slots=True)
class _ChangesInMaking:
    cookies: list[Cookie] = field(default_factory=list)
    deleted: list[CookieKey] = field(default_factory=list)

    def done(self) -> Changes:
        return Changes(cookies=tuple(self.cookies), deleted=tuple(self.deleted))


def _goes_on(session: Session, epoch: str) -> bool:
    """Whether what belongs to an epoch belongs to the session as it is now."""
    return epoch == session.epoch or (not epoch and session.grown)


def _reaches(domain: str, host: str) -> bool:
    """Whether cookies of a domain are those of a host, as jars see it."""
    full = host if "." in host or ":" in host else f"{host}.local"
    bare = domain.removeprefix(".")
    return bare in (host, full) or full.endswith(f".{bare}")
