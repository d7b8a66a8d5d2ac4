"""The pace of prompts: what a step holds where the KV cache bounds the load."""

from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.pace import LEAST, TILE, Pace

MOST = 2048


def _after(pace: Pace, steps: int, come: list[int], beside: int = 32) -> int:
    """The pace after steps before which these prompt tokens come in turn; what does not fit into a
    step is left for the next."""
    left, tokens = 0, pace.tokens(beside, MOST)
    for step in range(steps):
        left += come[step % len(come)]
        held = min(left, tokens - beside)
        left -= held
        pace.ran(held)
        tokens = pace.tokens(beside, MOST)
    return tokens


def test_it_begins_with_the_engines_own_limit() -> None:
    assert Pace().tokens(32, MOST) == MOST


def test_prompts_that_come_in_bursts_are_spread_over_the_steps_between() -> None:
    assert 32 + 400 <= _after(Pace(), 2000, [1600, 0, 0, 0]) <= 32 + 800


def test_a_pace_under_which_prompts_fall_behind_grows_to_the_limit() -> None:
    pace = Pace()
    _after(pace, 1000, [0])
    assert _after(pace, 1000, [MOST]) == MOST


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 300)), max_size=50),
    st.integers(1, 9000),
)
def test_a_step_holds_what_it_may_always_hold_and_no_more_than_the_engine_lets_it(
    steps: list[tuple[int, int]], most: int
) -> None:
    pace = Pace()
    for prompt, beside in steps:
        pace.ran(prompt)
        tokens = pace.tokens(beside, most)
        assert min(beside + LEAST, most) <= tokens <= most
        assert tokens % TILE == 0 or tokens == most
