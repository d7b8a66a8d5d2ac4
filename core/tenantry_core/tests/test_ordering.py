"""Every ordering: total, deterministic, ties by arrival and then id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import ordering
from tenantry_core.ordering import ORDERINGS, Ordering, Waiting

REQUESTS = st.lists(
    st.builds(Waiting, st.integers(-5, 5).map(float), st.text("ab", max_size=3)),
    unique=True,
    max_size=30,
)
EVERY = pytest.mark.parametrize("key", ORDERINGS.values(), ids=list(ORDERINGS))


@EVERY
@given(requests=REQUESTS)
def test_an_ordering_is_total(key: Ordering, requests: list[Waiting]) -> None:
    assert len({key(request) for request in requests}) == len(requests)


@EVERY
def test_of_equals_the_earlier_goes_first_and_then_the_smaller_id(key: Ordering) -> None:
    requests = [Waiting(2.0, "a"), Waiting(1.0, "b"), Waiting(1.0, "a")]
    assert sorted(requests, key=key) == [Waiting(1.0, "a"), Waiting(1.0, "b"), Waiting(2.0, "a")]


def test_the_default_is_in_the_table() -> None:
    assert ordering.DEFAULT in ORDERINGS
