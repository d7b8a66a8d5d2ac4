"""The waiting queue keeps the contract of vLLM's queues."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "pop", "peek", "prepend", "prepend all", "remove", "remove all"]),
        st.integers(0, 12),
        st.lists(st.integers(0, 12), max_size=4, unique=True),
    ),
    max_size=60,
)


@dataclass(frozen=True)
class Request:
    """What a queue looks at."""

    request_id: str
    tenant: str
    arrival_time: float


def a_request(number: int, tenant: str = "gold") -> Request:
    return Request(f"r{number}", tenant, float(number))


@pytest.fixture
def a_queue(harness: Any) -> Any:
    return harness.tenant_queue


@pytest.mark.parametrize("by_tenant", [True, False], ids=["lanes", "one lane"])
def test_with_one_tenant_it_does_what_the_queue_of_vllm_does(
    a_queue: Any, harness: Any, by_tenant: bool
) -> None:
    @settings(max_examples=200, deadline=None)
    @given(OPERATIONS)
    def check(operations: list[tuple[str, int, list[int]]]) -> None:
        theirs, ours = harness.vllm_queue(), a_queue(by_tenant=by_tenant)
        requests = [a_request(number) for number in range(13)]
        for operation, number, several in operations:
            inside = set(map(id, theirs))
            absent = [requests[n] for n in several if id(requests[n]) not in inside]
            results = [
                apply(queue, operation, requests[number], absent, id(requests[number]) in inside)
                for queue in (theirs, ours)
            ]
            assert results[0] is results[1]
            assert [r.request_id for r in ours] == [r.request_id for r in theirs]
            assert (len(ours), bool(ours)) == (len(theirs), bool(theirs))

    check()


def apply(queue: Any, operation: str, request: Any, absent: list[Any], inside: bool) -> Any:
    """One operation that is allowed in the queue's state; what it returns."""
    if operation in ("add", "prepend") and not inside:
        (queue.add_request if operation == "add" else queue.prepend_request)(request)
    elif operation == "prepend all":
        queue.prepend_requests(absent)
    elif operation in ("pop", "peek") and queue:
        return queue.pop_request() if operation == "pop" else queue.peek_request()
    elif operation == "remove" and inside:
        queue.remove_request(request)
    elif operation == "remove all":
        queue.remove_requests([request, *absent])
    return None


def test_pop_returns_what_peek_showed_whatever_the_chooser_would_say_now(a_queue: Any) -> None:
    turns = iter(["gold", "free", "gold", "free"])
    queue = a_queue(lambda lanes: lanes[next(turns)].head)
    gold, free = a_request(1), a_request(2, "free")
    queue.add_request(free)
    queue.add_request(gold)
    assert queue.peek_request() is gold
    assert queue.peek_request() is gold
    assert queue.pop_request() is gold


@pytest.mark.parametrize("change", ["add", "prepend", "remove"])
def test_a_change_of_the_queue_asks_for_a_new_choice(a_queue: Any, change: str) -> None:
    queue = a_queue(lambda lanes: lanes[min(lanes)].head)
    queue.add_request(a_request(1, "b"))
    queue.add_request(a_request(2, "c"))
    assert queue.peek_request().tenant == "b"
    first = a_request(3, "a")
    if change == "remove":
        queue.remove_request(queue.peek_request())
        assert queue.peek_request().tenant == "c"
    else:
        (queue.add_request if change == "add" else queue.prepend_request)(first)
        assert queue.peek_request() is first


def test_a_queue_whose_heads_must_all_wait_looks_empty_and_is_counted(a_queue: Any) -> None:
    queue = a_queue(lambda _: None)
    queue.add_request(a_request(1))
    assert not queue
    assert len(queue) == 1
    with pytest.raises(IndexError, match="may be served"):
        queue.peek_request()


def test_a_request_that_is_not_here_is_not_missed(a_queue: Any) -> None:
    queue = a_queue()
    queue.add_request(a_request(1))
    queue.remove_request(a_request(2))
    queue.remove_requests([a_request(3), a_request(4)])
    assert len(queue) == 1


def test_what_was_offered_and_not_taken_is_known(a_queue: Any) -> None:
    queue = a_queue()
    queue.add_request(a_request(1))
    head = queue.peek_request()
    assert queue.offered is head
    queue.pop_request()
    assert queue.offered is None


def test_counts_by_tenant_agree_with_a_recount(a_queue: Any) -> None:
    queue = a_queue()
    for number in range(9):
        queue.add_request(a_request(number, "abc"[number % 3]))
    queue.pop_request()
    assert dict(queue.counts) == {"a": 2, "b": 3, "c": 3}
    queue.remove_requests(list(queue))
    assert not queue.counts


def test_keys_are_made_anew_a_few_at_a_time_and_the_queue_stays_in_order(a_queue: Any) -> None:
    queue, sign = a_queue(), [1.0]
    queue.order(lambda each: (0.0, 0.0, sign[0] * each.arrival_time, 0.0, 0.0, each.request_id))
    queue.ordered = True
    for number in range(6):
        queue.add_request(a_request(number))
    sign[0] = -1.0
    queue.rekey("gold")
    queue.remove_request(queue.peek_request())
    queue.refresh(2)
    assert [r.request_id for r in queue] == ["r2", "r1", "r3", "r4", "r5"]
    queue.refresh(99)
    assert [r.request_id for r in queue] == ["r5", "r4", "r3", "r2", "r1"]


def test_going_to_one_lane_and_back_keeps_every_turn(a_queue: Any) -> None:
    queue = a_queue()
    for number in range(6):
        queue.add_request(a_request(number, "ab"[number % 2]))
    queue.split(by_tenant=False)
    assert [r.request_id for r in queue] == ["r0", "r1", "r2", "r3", "r4", "r5"]
    queue.split(by_tenant=True)
    assert {t: r.request_id for t, r in queue.heads().items()} == {"a": "r0", "b": "r1"}
