"""What runs already counts where more is let in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.foresight import AHEAD, Foresight

STEP, DECODE, CONTEXT = 0.040, 0.0002, 1e-7


def learned(steps: int = 1) -> Foresight:
    found = Foresight()
    for _ in range(steps):
        found.ran(DECODE, CONTEXT, STEP)
    return found


@given(
    steps=st.integers(1, 50),
    decodes=st.integers(1, 64),
    context=st.integers(0, 100_000),
    more=st.integers(0, 8),
    part=st.floats(0.0, 1.0),
)
def test_the_excess_is_what_goes_beyond_the_part(
    steps: int, decodes: int, context: int, more: int, part: float
) -> None:
    takes = (decodes + more) * (DECODE + CONTEXT * context / decodes) / STEP
    found = learned(steps).excess(decodes, context, more, part)
    assert found == pytest.approx(AHEAD * max(takes - part, 0.0), abs=1e-9)


def test_without_decodes_or_before_the_first_step_nothing_is_foreseen() -> None:
    assert learned().excess(0, 0, 5, 0.0) == 0.0
    assert Foresight().excess(3, 1000, 1, 0.0) == 0.0


@pytest.mark.parametrize("seconds", [60.0, float("inf"), float("nan"), 0.0, -1.0])
def test_a_pause_is_soon_forgotten(seconds: float) -> None:
    found = learned(100)
    found.ran(DECODE * seconds / STEP, CONTEXT, seconds)
    assert found.part(10, 1000) == pytest.approx(learned().part(10, 1000), rel=0.1)
    assert found.part(10, 1000) > 0.0


def test_prices_follow_the_steps() -> None:
    found = learned()
    for _ in range(1000):
        found.ran(2 * DECODE, CONTEXT, STEP)
    assert found.part(10, 0) == pytest.approx(20 * DECODE / STEP, rel=0.01)
