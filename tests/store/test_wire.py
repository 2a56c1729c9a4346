"""Operations go in another order than they were made in; nobody notices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scrapy_redis_state.store.messages import Ack, Answer, Check, Operation, Store
from scrapy_redis_state.store.wire import pack_operations
from tests.store.crawls import ack, page, unfiltered

OPERATIONS: st.SearchStrategy[Operation] = st.sampled_from(
    [
        Store(b"a", 1, b"f", "page"),
        Store(b"b", 2, b"f"),
        Store(b"unfiltered"),
        Store(b"of a site", site="example.com"),
        Ack("1", 1),
        Ack("2", 1, (b"f",)),
        Check(b"f"),
    ]
)


@given(st.lists(OPERATIONS))
def test_each_operation_gets_its_own_answer(operations):
    """Wherever it stands in what is sent."""
    packed = pack_operations(operations)
    assert sorted(packed.order) == list(range(len(operations)))
    answers = [
        Answer.DONE if isinstance(operations[place], Ack) else Answer.STORED
        for place in packed.order
    ]
    found = packed.read_answers("".join(answers))
    assert [answer is Answer.DONE for answer in found] == [
        isinstance(operation, Ack) for operation in operations
    ]


@given(st.lists(OPERATIONS))
def test_no_end_of_a_page_overtakes_a_store(operations):
    """Stores keep their order, and so do all that are sent one by one."""
    order = pack_operations(operations).order
    places = {sent: n for n, sent in enumerate(order)}
    stores = [n for n, one in enumerate(operations) if isinstance(one, Store)]
    assert sorted(stores, key=places.__getitem__) == stores
    for n, one in enumerate(operations):
        if isinstance(one, Ack):
            assert all(places[store] < places[n] for store in stores if store < n)


def test_answers_of_a_mixed_batch(crawl):
    """Duplicates within it, requests without a fingerprint, ends between them."""
    member = crawl.member()
    crawl.push(page("held 1"), page("held 2"))
    one, two = member.take(2)
    answers = member.answers(
        page("a", 1),
        ack(one),
        page("a", 2),
        unfiltered("b"),
        ack(one),
        Check(b"c"),
        page("c", 3),
        ack(two),
        page("held 1"),
    )
    assert "".join(answers) == "sodsxssod"
    assert [crawl.entry(id) for id in crawl.place("frontier")] == [
        b"0;0;;b",
        b"1;0;;a",
        b"3;0;;c",
    ]
