"""A lane keeps two orders at once."""

import time
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.ordering import Key
from tenantry_engine.lanes import Lane

MANY = 10_000


@dataclass(frozen=True)
class Request:
    """What a lane looks at."""

    request_id: str
    size: float


def key(request: Any) -> Key:
    return (0.0, 0.0, request.size, 0.0, 0.0, request.request_id)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "front", "remove"]), st.integers(0, 9), st.integers(0, 3))
    ),
    st.booleans(),
)
def test_both_orders_are_those_of_a_plain_list(
    story: list[tuple[str, int, int]], ordered: bool
) -> None:
    lane, plain = Lane(0.0, ordered=ordered), list[Request]()
    for what, number, size in story:
        there = next((each for each in plain if each.request_id == f"r{number}"), None)
        if what == "remove" and there is not None:
            lane.remove(there.request_id)
            plain.remove(there)
        elif what != "remove" and there is None:
            request = Request(f"r{number}", float(size))
            lane.add(request, key(request), front=what == "front")
            plain.insert(0 if what == "front" else len(plain), request)
        assert list(lane) == (sorted(plain, key=key) if ordered else plain)
        assert list(lane.arrivals()) == plain
        if plain:
            assert lane.head == next(iter(lane))


def test_other_keys_are_another_order_and_without_keys_it_is_that_of_arrival() -> None:
    lane = Lane(0.0, ordered=True)
    requests = [Request(f"r{number}", float(-number)) for number in range(5)]
    for request in requests:
        lane.add(request, key(request), front=False)
    assert list(lane) == requests[::-1]
    lane.rekey(lambda each: (0.0, 0.0, -each.size, 0.0, 0.0, each.request_id))
    assert list(lane) == requests
    lane.rekey(None)
    assert list(lane) == requests


def test_ten_thousand_requests_go_through_a_lane_in_no_time() -> None:
    lane = Lane(0.0, ordered=True)
    began = time.thread_time()
    for number in range(MANY):
        request = Request(f"r{number}", float(number * 7919 % MANY))
        lane.add(request, key(request), front=False)
    for _ in range(MANY):
        lane.remove(lane.head.request_id)
    # About 5 us for each in and out; a search of the whole lane for each would take seconds.
    assert time.thread_time() - began < 1.0
    assert not lane
