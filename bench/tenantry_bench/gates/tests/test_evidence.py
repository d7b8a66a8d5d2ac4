"""What one simulation showed, read in windows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_bench.gates.evidence import E2E, FINISHED, ITL, REFUSED, TTFT, Evidence


def a_body(**more: Any) -> dict[str, Any]:
    body = {
        "tenants": ["quiet", "flooder"],
        "end": 10.0,
        "cpu": 0.5,
        "window": [2.0, 8.0],
        "shares": {"gap": 0.1},
        "requests": {
            "early": ["quiet", 1.0, 0.1, 0.5, "finished", 0.2],
            "done": ["quiet", 2.0, 0.2, 1.0, "finished", 0.2],
            "open": ["quiet", 7.0, 0.5, None, "unfinished", 0.2],
            "silent": ["flooder", 4.0, None, None, "unfinished", 0.2],
            "refused": ["flooder", 5.0, None, 0.0, "refused", 0.2],
        },
        "times": {"early": [0.1], "done": [0.2, 0.5, 1.0], "open": [0.5, 1.5]},
        "bins": {"service": [[float(second), 1.0] for second in range(11)]},
    }
    return body | more


def test_what_is_not_over_counts_with_its_wait_so_far() -> None:
    seen = Evidence(a_body())
    assert sorted(seen.waits(E2E)) == [1.0, 3.0, 6.0]
    assert sorted(seen.waits(TTFT)) == [0.2, 0.5, 6.0]


def test_gaps_between_tokens_end_with_the_wait_for_one_that_never_came() -> None:
    seen = Evidence(a_body())
    assert sorted(seen.waits(ITL, "quiet")) == pytest.approx([0.3, 0.5, 1.0, 1.5])


def test_the_refused_have_no_wait_and_are_counted() -> None:
    seen = Evidence(a_body())
    assert seen.count(REFUSED) == 1
    assert len(seen.waits(TTFT, "flooder")) == 1


def test_a_window_takes_what_was_due_in_it() -> None:
    seen = Evidence(a_body())
    assert set(seen.measured()) == {"done", "open", "silent", "refused"}
    assert set(seen.measured((0.0, 2.0))) == {"early"}
    assert seen.count(FINISHED, (0.0, 10.0)) == 2


@given(st.integers(0, 10), st.integers(0, 10))
def test_seconds_add_up_over_windows(first: int, second: int) -> None:
    seen, (low, high) = Evidence(a_body()), sorted((first, second))
    parts = [(0.0, low), (low, high), (high, 11.0)]
    assert sum(seen.total("service", window=part) for part in parts) == 55 + 11
    assert seen.total("service", "quiet", (low, high)) == sum(range(low, high))


def test_service_over_time_is_in_whole_stretches() -> None:
    found = Evidence(a_body()).over_time("service", "quiet", 4)
    assert np.array_equal(found, [1.5, 5.5])
