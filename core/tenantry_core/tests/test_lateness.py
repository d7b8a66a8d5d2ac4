import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.lateness import pace

seconds = st.floats(0, 1e4)
shares = st.floats(0.01, 1)


def test_on_half_the_engine_everything_is_due_twice_as_late() -> None:
    whole, half = pace(10.0, 0.5, 0.01, 1.0), pace(10.0, 0.5, 0.01, 0.5)
    assert whole.due(0) == pytest.approx(10.51)
    assert half.due(0) == pytest.approx(11.02)
    assert half.due(100) - half.due(0) == pytest.approx(2.0)


def test_what_is_there_in_time_is_not_late() -> None:
    half = pace(0.0, 0.1, 0.01, 0.5)
    assert half.late(0, 0.2) < 0
    assert half.late(10, 1.0) == pytest.approx(1.0 - 0.42)


@given(seconds, seconds, st.floats(1e-4, 1), shares, st.integers(0, 1000))
def test_each_token_is_due_after_the_one_before(
    arrival: float, prompt: float, step: float, share: float, token: int
) -> None:
    one = pace(arrival, prompt, step, share)
    assert arrival < one.due(token) < one.due(token + 1)


@given(seconds, seconds, st.floats(1e-4, 1), shares, shares, st.integers(0, 1000))
def test_a_larger_share_is_due_no_later(
    arrival: float, prompt: float, step: float, one: float, other: float, token: int
) -> None:
    small, large = sorted((one, other))
    assert pace(arrival, prompt, step, large).due(token) <= pace(arrival, prompt, step, small).due(
        token
    )


def test_no_share_at_all_is_late_only_after_ages() -> None:
    assert pace(0.0, 0.1, 0.01, 0.0).due(0) == pytest.approx(0.11 / 1e-6)
