"""What is one page: which URLs share a fingerprint, and which never do."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
import w3lib
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_redis_state.store import CrawlState, url_fingerprint
from scrapy_redis_state.store.canonical import (
    DEFAULT_RULES,
    RULES_VERSION,
    TRACKING,
    StripRules,
    UrlRules,
    rules_version,
)
from scrapy_redis_state.store.canonical.tracking import TRACKING_NAMES
from tests.processes import REPOSITORY

PAGES = (
    # Each line is a page of its own, in all its spellings.
    ("http://h.example", "http://h.example/", "HTTP://H.example:80/", "http://h.example./#f"),
    ("https://h.example/", "https://h.example:443/", "https://H.EXAMPLE.:443", "https://h.example/?"),
    ("https://h.example:80/",),
    ("http://h.example:443/",),
    ("http://h.example:8080/", "http://h.example.:08080/"),
    ("http://www.h.example/",),
    ("http://user@h.example/", "http://user@H.example:80/"),
    ("http://User@h.example/",),
    ("http://user:p%40s@h.example/", "http://user:p%40s@h.example.:80/"),
    ("http://münchen.example/", "http://xn--mnchen-3ya.example:80/", "http://MÜNCHEN.example/"),
    ("http://[::1]/", "http://[::0:1]:80/", "http://[0:0:0:0:0:0:0:1]/"),
    ("http://[::1]:81/",),
    ("http://[2001:db8::a]/", "http://[2001:DB8::A]/"),
    ("http://127.0.0.1/",),
    ("http://h.example/path",),
    ("http://h.example/path/",),
    ("http://h.example/Path",),
    ("http://h.example//path",),
    ("http://h.example/p", "http://h.example/x/../p", "http://h.example/./p", "http://h.example/%70"),
    ("http://h.example/a/b", "http://h.example/a/b#c"),
    ("http://h.example/a%2Fb", "http://h.example/a%2fb"),
    ("http://h.example/a%252Fb",),
    ("http://h.example/x%23y",),
    ("http://h.example/x", "http://h.example/x#y"),
    ("http://h.example/x%25",),
    ("http://h.example/x%",),
    ("http://h.example/x%3Fy", "http://h.example/x%3fy"),
    ("http://h.example/x?y=", "http://h.example/x?y"),
    ("http://h.example/c;TicketID=1",),
    ("http://h.example/c%3BTicketID=1", "http://h.example/c%3bTicketID=1"),
    ("http://h.example/c;TicketID=1;d/e",),
    ("http://h.example/é", "http://h.example/%C3%A9", "http://h.example/%c3%a9"),
    ("http://h.example/%E9", "http://h.example/%e9"),
    ("http://h.example/%00",),
    ("http://h.example/a b", "http://h.example/a%20b"),
    ("http://h.example/a+b",),
    ("http://h.example/%%34%31",),
    ("http://h.example/%41", "http://h.example/A"),
    ("http://h.example/" + "x" * 20_000,),
    ("http://h.example/" + "x" * 20_001,),
    ("http://h.example/?a=1&b=2", "http://h.example/?b=2&a=1", "http://h.example?b=2&&a=1&"),
    ("http://h.example/?a=1&A=1",),
    ("http://h.example/?a=1",),
    ("http://h.example/?a=1&a=1",),
    ("http://h.example/?a=1&a=2", "http://h.example/?a=1&utm_id=7&a=2"),
    ("http://h.example/?a=2&a=1",),
    ("http://h.example/?b=0&a=2&a=1", "http://h.example/?a=2&b=0&a=1"),
    ("http://h.example/?a=", "http://h.example/?a"),
    ("http://h.example/?=a",),
    ("http://h.example/?a=1;b=2",),
    ("http://h.example/?a=1%3Bb=2", "http://h.example/?a=1%3bb%3D2"),
    ("http://h.example/?a=1;b=3",),
    ("http://h.example/?a=b/c", "http://h.example/?a=b%2Fc", "http://h.example/?a=b%2fc"),
    ("http://h.example/?a=b%252Fc",),
    ("http://h.example/?a=b+c", "http://h.example/?a=b%20c", "http://h.example/?a=b c"),
    ("http://h.example/?a=b%2Bc",),
    ("http://h.example/?a=1%26b=2",),
    ("http://h.example/?a%3D1",),
    ("http://h.example/?q=%E4", "http://h.example/?q=%e4"),
    ("http://h.example/?q=ä", "http://h.example/?q=%C3%A4"),
    ("http://h.example/?q=%",),
    ("http://h.example/?q=%25",),
    ("http://h.example/?q=%%34%31",),
    ("http://h.example/?q[]=1", "http://h.example/?q%5B%5D=1"),
    ("http://h.example/?q=" + "y" * 20_000,),
    ("http://h.example/list?utm_page=2&id=5&fbclid=x", "http://h.example/list?id=5"),
    ("http://h.example/list?id=5&ref=x",),
    ("http://h.example/list?id=5&UTM_source=x",),
    ("http://h.example/list", "http://h.example/list?gclid=1&msclkid=2&%75tm_source=3"),
    ("ftp://h.example/x?a=1&utm_id=2",),
    ("data:,a?utm_id=2",),
    ("data:,a",),
)  # fmt: skip


def canonical(url: str, rules: UrlRules = DEFAULT_RULES, **options: bool) -> str:
    """What the rules make of a URL that a request has."""
    return rules.canonical(safe_url_string(url), **options)


def rules(value: Any) -> UrlRules:
    return UrlRules(StripRules.of(value))


# Pieces from which URLs of every shape are made: what a rule acts on, and its double.
_SERVERS = st.sampled_from(
    [
        "h.example",
        "www.h.example",
        "H.example",
        "h.example.",
        "xn--mnchen-3ya.example",
        "[::1]",
        "[0::1]",
        "127.0.0.1",
        "u@h.example",
        "u:p%3a@h.example",
    ]
)
_PORTS = st.sampled_from(("", ":80", ":443", ":8080", ":080", ":"))
_PIECES = [
    "a",
    "A",
    "b",
    "1",
    "4",
    ".",
    "..",
    "-",
    "_",
    "~",
    "%",
    "%25",
    "%2F",
    "%2f",
    "%41",
    "%3B",
    ";",
    "%23",
    "%3F",
    "%26",
    "&",
    "=",
    "%3D",
    "+",
    "%20",
    "%2B",
    "%E4",
    "%c3%a4",
    "%2e",
    "%7E",
    "[",
    "|",
    ":",
    "@",
    "!",
    "'",
    "*",
    "utm_id",
    "gclid",
]
_TEXT = st.lists(st.sampled_from(_PIECES), max_size=6).map("".join)
_PATHS = st.lists(_TEXT, max_size=4).map(lambda parts: "".join(f"/{p}" for p in parts))
_FIELDS = st.tuples(_TEXT, st.sampled_from(("", "=")), _TEXT).map("".join)
_QUERIES = st.lists(_FIELDS, max_size=4).map(lambda fields: "?" + "&".join(fields))


@st.composite
def urls(draw: st.DrawFn) -> str:
    """A URL as a request has it."""
    scheme = draw(st.sampled_from(("http", "https")))
    url = f"{scheme}://{draw(_SERVERS)}{draw(_PORTS)}{draw(_PATHS)}"
    url += draw(st.one_of(st.just(""), _QUERIES))
    return safe_url_string(url + draw(st.sampled_from(("", "#", "#f"))))


@pytest.mark.parametrize("spellings", PAGES, ids=lambda page: page[0][:60])
def test_all_spellings_of_a_page_have_one_fingerprint(spellings: tuple[str, ...]):
    """Whatever differs in the text alone."""
    assert len({canonical(url) for url in spellings}) == 1
    assert len({url_fingerprint(url) for url in spellings}) == 1


def test_no_two_pages_have_the_same():
    """Path, slash at the end, www, scheme, port, user, repeated and encoded parts."""
    found = [url_fingerprint(page[0]) for page in PAGES]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "url", [url for page in PAGES for url in page], ids=lambda url: url[:60]
)
def test_a_canonical_url_is_its_own_canonical_url(url: str):
    """The rules may be applied again, to what Scrapy makes of the result as well."""
    once = canonical(url)
    assert DEFAULT_RULES.canonical(once) == canonical(once) == once


@given(urls())
@example("http://h.example/%%34%31")
@example("http://h.example/a/%2e%2e/b/..;x")
@example("http://h.example/%2B/%/..")
@example("http://h.example/?%%34%31=;%25")
def test_whatever_the_url_once_is_enough(url: str):
    """A second application, and what a request makes of the URL, change nothing."""
    once = DEFAULT_RULES.canonical(url)
    assert DEFAULT_RULES.canonical(once) == once
    assert canonical(once) == once
    kept = DEFAULT_RULES.canonical(url, keep_fragment=True)
    assert DEFAULT_RULES.canonical(kept, keep_fragment=True) == kept
    assert kept.partition("#")[0] == once


_DOUBLES = (
    ("%41", "A"),
    ("%2F", "/"),
    ("%2F", "%2f"),
    ("%25", "%"),
    ("%3B", ";"),
    ("%3F", "?"),
    ("%3D", "="),
    ("%26", "&"),
    ("%2B", "+"),
    ("%20", "+"),
    ("%E4", "%C3%A4"),
    ("%2e", "."),
    ("&", ""),
    ("=", ""),
    ("/..", ""),
    ("/.", ""),
    ("/", "//"),
    ("a", "A"),
    (".:80", ""),
    (":443", ""),
    ("www.", ""),
    ("https", "http"),
)


@given(url=urls(), double=st.sampled_from(_DOUBLES), back=st.booleans())
@example(url="http://h.example/?a=1;b", double=("%3B", ";"), back=True)
@example(url="http://h.example/?a&a=b", double=("=", ""), back=False)
def test_nothing_is_merged_that_scrapy_keeps_apart(
    url: str, double: tuple[str, str], *, back: bool
):
    """But for host and port, also where the URLs differ in a detail only."""
    old, new = reversed(double) if back else double
    assume(old or urlsplit(url).path)
    try:
        other = safe_url_string(url.replace(old, new, 1) if old else url + new)
    except ValueError:  # no URL any more
        reject()
    assume(other.startswith("http"))
    strict = rules([])
    if strict.canonical(url) == strict.canonical(other):
        assert _with_plain_server(url) == _with_plain_server(other)


@given(urls(), st.data())
def test_a_change_of_a_page_is_a_change_of_its_fingerprint(url: str, data: Any):
    """One character more anywhere in path or values, and it is another page."""
    base, question, query = url.partition("#")[0].partition("?")
    base += "" if base.count("/") > 2 else "/"
    place = data.draw(st.sampled_from(("path", "query")))
    changed = (
        f"{base}x{question}{query}"
        if place == "path"
        else f"{base}?{query}{'&' if query else ''}x=1"
    )
    assert url_fingerprint(changed) != url_fingerprint(url)


@pytest.mark.skipif(
    tuple(map(int, w3lib.__version__.split(".")[:2])) < (2, 5),
    reason="earlier versions resolve no dots and decode what divides a path",
)
@given(urls())
def test_plain_urls_are_canonical_as_in_scrapy(url: str):
    """But for the server, and for equal names, semicolons and lone percent signs."""
    query = urlsplit(url).query
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    assume(len(set(names)) == len(names) and ";" not in url)
    assume(not re.search("%(?![0-9A-Fa-f]{2})", url))
    assert rules([]).canonical(url) == _with_plain_server(url)


def _with_plain_server(url: str) -> str:
    """Scrapy's canonical form, with host and port as ours has them."""
    scheme, _, rest = canonicalize_url(url).partition("://")
    server, _, path = rest.partition("/")
    user, at, host = server.rpartition("@")
    host = host.removesuffix({"http": ":80", "https": ":443"}[scheme])
    host = re.sub(r"\.(?=:|$)", "", host)
    return f"{scheme}://{user}{at}{host}/{path}"


@given(urls())
def test_the_fragment_is_kept_on_demand(url: str):
    """For fingerprinters of pages that scripts make."""
    whole = DEFAULT_RULES.canonical(url, keep_fragment=True)
    assert whole.endswith("#f") == url.endswith("#f")


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_that_differ_are_pages_that_differ(one: bytes, other: bytes):
    """Also where they are no UTF-8, in path and query."""
    assume(one != other)
    for form in ("http://h.example/-{}-", "http://h.example/?q={}"):
        first, second = (form.format(quote(text, safe="")) for text in (one, other))
        assert url_fingerprint(first) != url_fingerprint(second)


class TestParametersLeftOut:
    @pytest.mark.parametrize("name", TRACKING_NAMES)
    def test_tracking_parameters(self, name: str):
        """With any value, or none, wherever they stand."""
        name = name.replace("*", "anything")
        for query in (f"{name}=1", f"{name}", f"{name}=&{name}=2"):
            assert canonical(f"http://h/p?{query}") == "http://h/p"
            assert canonical(f"http://h/p?{query}&id=1") == "http://h/p?id=1"
            assert canonical(f"http://h/p?id=1&{query}") == "http://h/p?id=1"

    @pytest.mark.parametrize(
        "name",
        [
            "id",
            "page",
            "q",
            "ref",
            "source",
            "cid",
            "s",
            "sid",
            "gclid2",
            "xgclid",
            "utm",
            "my_utm_source",
            "GCLID",
            "mkt_tok",
            "igshid",
            "tracking",
            "PHPSESSID",
        ],
    )
    def test_whatever_may_change_a_page_stays(self, name: str):
        """The list is of names that never do."""
        assert canonical(f"http://h/p?{name}=1") == f"http://h/p?{name}=1"

    def test_each_has_a_source(self):
        """And is listed once."""
        assert len(set(TRACKING_NAMES)) == len(TRACKING_NAMES)
        for tracking in TRACKING:
            assert tracking.names
            assert tracking.origin
            assert tracking.source.startswith(("https://", "http://"))

    @pytest.mark.parametrize(
        ("entries", "query", "kept"),
        [
            ([], "utm_id=1&a=2", "a=2&utm_id=1"),
            (["a"], "utm_id=1&a=2&aa=3", "aa=3&utm_id=1"),
            (["a*"], "a=1&ab=2&ba=3", "ba=3"),
            (["?id"], "sid=1&id=2&ssid=3", "id=2&ssid=3"),
            (["[ab]x"], "ax=1&bx=2&cx=3", "cx=3"),
            (["*"], "a=1&b=2", ""),
            (["*", "!a"], "a=1&b=2", "a=1"),
            (["!a", "*"], "a=1&b=2", ""),
            (["tracking", "!utm_id"], "utm_id=1&utm_x=2", "utm_id=1"),
            (["*", "!tracking"], "gclid=1&b=2", "gclid=1"),
            (["[t]racking"], "tracking=1&gclid=2", "gclid=2"),
            (["ü"], "%C3%BC=1&u=2", "u=2"),
            (["a b"], "a+b=1&a%20b=2&ab=3", "ab=3"),
        ],
    )
    def test_the_last_entry_that_fits_decides(
        self, entries: list[str], query: str, kept: str
    ):
        """A name or glob leaves out, and with an exclamation mark it keeps."""
        assert canonical(f"http://h/?{query}", rules(entries)).partition("?")[2] == kept

    @pytest.mark.parametrize(
        ("host", "kept"),
        [
            ("other.example", "a=1&b=1&c=1"),
            ("shop.example", "b=1&c=1&gclid=1"),
            ("SHOP.example.:80", "b=1&c=1&gclid=1"),
            ("de.shop.example", "b=1&gclid=1"),
            ("x.de.shop.example", "b=1&gclid=1"),
            ("myshop.example", "a=1&b=1&c=1"),
            ("xn--mnchen-3ya.example", "a=1&c=1"),
            ("[::1]:8080", "c=1"),
        ],
    )
    def test_sites_have_lists_of_their_own(self, host: str, kept: str):
        """They come after what holds everywhere, those of subdomains last."""
        site_rules = rules(
            {
                "de.shop.example": ["c"],
                "Shop.example": ["a", "!gclid"],
                "münchen.example": ["b"],
                "*": ["tracking"],
                "[0::1]": ["a", "b"],
            }
        )
        url = f"http://{host}/?a=1&b=1&c=1&gclid=1&utm_id=1"
        assert canonical(url, site_rules).partition("?")[2] == kept

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("tracking", "must have a list"),
            (None, "must have a list"),
            ([1], "has the entry 1: use names"),
            ([""], "has the entry ''"),
            (["!"], "has the entry '!'"),
            (["ref=1"], "has the entry 'ref=1': use the parameter's name alone"),
            ({"shop.example": "ref"}, "must have a list"),
            ({"http://shop.example": []}, "has the site 'http://shop.example': use a"),
            ({"shop.example/x": []}, "has the site"),
            ({"shop.example:80": []}, "has the site"),
            ({"*.shop.example": []}, "stands for its subdomains too"),
            ({"": []}, "has the site"),
            ({1: []}, "has the site 1"),
            ({"a.example": [], "A.example": []}, "has the site 'a.example' twice"),
        ],
    )
    def test_what_looks_like_a_mistake_is_refused(self, value: Any, problem: str):
        """With what to write instead."""
        with pytest.raises(ValueError) as caught:
            StripRules.of(value)
        assert problem in str(caught.value)

    def test_rules_are_described_in_short(self):
        """Equal rules alike, however they were written; different ones never."""
        described = StripRules.of(["tracking"]).describe()
        assert described == '["tracking"]'
        assert StripRules.of({"*": ["tracking"]}).describe() == described
        assert StripRules.of({"b.example": ["x"], "*": []}).describe() == (
            '{"*": [], "b.example": ["x"]}'
        )
        long = [
            StripRules.of([*map(str, range(1000)), last]).describe() for last in "ab"
        ]
        assert len(set(long)) == 2
        assert max(map(len, long)) < 250

    def test_names_are_forgotten_in_time(self):
        """A site with ever new names of parameters does not fill the memory."""
        some = rules(["x"])
        for number in range(6000):
            some.canonical(f"http://h{number % 1500}.example/?n{number}=1")
        assert some._reader_for.cache_info().currsize <= 1024
        assert some._reader_by.cache_info().currsize == 1


class TestVersion:
    def test_other_rules_have_another_version(self):
        """A change of any canonical URL, or of the list, needs a new RULES_VERSION.

        When this fails, raise it and write the new digest here.
        """
        found = [canonical(url)[:100] for page in PAGES for url in page]
        text = json.dumps([found, TRACKING_NAMES])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        assert (RULES_VERSION, digest) == (1, "ad226e1db4c9")

    def test_another_w3lib_is_noticed(self, monkeypatch: pytest.MonkeyPatch):
        """Where it makes other URLs, of requests or for the project's fingerprinter."""
        module = "scrapy_redis_state.store.canonical.version"
        plain, both = (rules_version(with_w3lib=use) for use in (False, True))
        assert plain.startswith(f"{RULES_VERSION}-")
        assert plain != both
        monkeypatch.setattr(f"{module}.canonicalize_url", lambda url: f"{url}#x")
        assert rules_version(with_w3lib=False) == plain
        assert rules_version(with_w3lib=True) != both
        monkeypatch.setattr(f"{module}.safe_url_string", lambda url: f"{url}x")
        assert rules_version(with_w3lib=False) != plain


class TestDocumentation:
    """The page about it says what is so."""

    PAGE = (REPOSITORY / "docs" / "explanation" / "duplicates.rst").read_text()

    def url(self, shown: str) -> str:
        """The URL of which the page may show the end only."""
        if shown.startswith("?"):
            shown = f"/{shown}"
        return f"http://shop.example{shown}" if shown.startswith("/") else shown

    def test_what_makes_no_other_page(self):
        """Each ``A`` is ``B`` of the table."""
        table = self.PAGE.partition("These make no")[2].partition("And these")[0]
        found = re.findall("``([^`]+)`` is ``([^`]+)``", table)
        assert len(found) == 12
        for one, other in found:
            assert canonical(self.url(one)) == canonical(self.url(other)), one
            assert one != other

    def test_what_makes_another(self):
        """Each ``A``, ``B`` of the list."""
        listed = self.PAGE.partition("And these")[2].partition("Where nothing")[0]
        found = re.findall(r"``([^`]+)``,\s+``([^`]+)``", listed)
        assert len(found) == 4
        for one, other in found:
            assert canonical(self.url(one)) != canonical(self.url(other)), one

    def test_rules_of_the_example(self):
        """They are rules, and do what the comments say."""
        example = re.search(r"PARAMS\": (\{.+?\n +\})", self.PAGE, re.DOTALL)
        assert example
        shown = rules(ast.literal_eval(example[1]))
        for url, kept in (
            ("http://de.shop.example/?ref=1&sess_id=2&gclid=3&a=4", "a=4"),
            ("http://ads.example/?gclid=1&utm_id=2", "gclid=1"),
            ("http://api.example/?utm_id=1&a=2", "a=2&utm_id=1"),
        ):
            assert canonical(url, shown).partition("?")[2] == kept


@pytest.mark.parametrize("kind", ["claim", "push"])
def test_programs_claim_and_push_pages_not_spellings(crawl, kind: str):
    """The second spelling of a page is not new; another page is."""
    with CrawlState(crawl.client, crawl.keys) as state:
        take = getattr(state, kind)
        assert take("http://H.example:80/p?b=1&a=2&utm_source=x")
        assert not take("http://h.example./p?a=2&b=1#top")
        assert take("http://h.example/p/?a=2&b=1")
        assert not getattr(state, "push" if kind == "claim" else "claim")(
            "http://h.example/p?gclid=5&a=2&b=1"
        )


def test_what_is_pushed_keeps_its_url(crawl):
    """The canonical form is for recognition alone."""
    url = "http://h.example:80/p?b=1&a=2&utm_source=x#top"
    with CrawlState(crawl.client, crawl.keys) as state:
        assert state.push(url)
        assert [leased.url for leased in state.lease()] == [url]


def test_a_pushed_request_may_ask_to_be_taken_as_it_is(crawl):
    """As in Scrapy, with verbatim_url in its meta."""
    url = "http://h.example/p?b=1&a=2&utm_source=x#top"
    request = {"url": url, "meta": {"verbatim_url": True}}
    with CrawlState(crawl.client, crawl.keys) as state:
        assert state.push(request)
        assert not state.push(request)
        assert state.push(url)
