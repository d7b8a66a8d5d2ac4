from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.growth import HORIZON, Ask, Forecast, fits


@dataclass
class Runs:
    """A running request, stepped token by token."""

    remaining: int
    tokens: int
    pending: int = 0

    def blocks(self, block: int) -> int:
        return -(-self.tokens // block)


SOME = st.lists(
    st.builds(Runs, st.integers(1, 80), st.integers(1, 200), st.sampled_from([0, 0, 1, 40])),
    max_size=12,
)
BLOCK = st.sampled_from([1, 3, 16])


def held_after(running: list[Runs], block: int, steps: int) -> list[int]:
    """Blocks that all hold together before the first step and after each one: told one by one."""
    those = [Runs(each.remaining, each.tokens, each.pending) for each in running]
    held = [sum(each.blocks(block) for each in those)]
    for _ in range(steps):
        those = [each for each in those if each.remaining > 0]  # one that ended has left
        for each in those:
            each.tokens += each.pending + 1
            each.pending = 0
            each.remaining -= 1
        held.append(sum(each.blocks(block) for each in those))
    return held


def forecast_of(running: list[Runs], block: int = 16, horizon: int = HORIZON) -> Forecast:
    forecast = Forecast(block, horizon)
    for each in running:
        held = each.blocks(block)
        forecast.add(each.remaining, each.tokens % block, held, each.pending)
    return forecast


@given(SOME, BLOCK, st.integers(1, 64), st.integers(1, 80), st.integers(0, 5))
def test_growth_is_that_of_every_request_stepped_token_by_token(
    running: list[Runs], block: int, horizon: int, steps: int, after: int
) -> None:
    seen = held_after(running, block, min(steps, horizon))[after:]
    expected = max(seen) - seen[0] if seen else 0
    assert forecast_of(running, block, horizon).growth(steps, after) == expected


@given(SOME, SOME, BLOCK)
def test_a_forecast_that_is_added_to_is_that_of_all_of_them(
    first: list[Runs], more: list[Runs], block: int
) -> None:
    forecast = forecast_of(first, block)
    forecast.growth(HORIZON)
    for each in more:
        forecast.add(each.remaining, each.tokens % block, each.blocks(block), each.pending)
    assert forecast.growth(HORIZON) == forecast_of(first + more, block).growth(HORIZON)
    assert forecast.running == len(first) + len(more)


@given(SOME, SOME, st.integers(0, 8))
def test_a_forecast_that_is_some_steps_old_is_a_new_one_of_what_runs_by_then(
    first: list[Runs], more: list[Runs], passed: int
) -> None:
    old = forecast_of(first, horizon=HORIZON + 8)
    for each in more:
        old.add(each.remaining, each.tokens % 16, each.blocks(16), each.pending, passed)
    now = [
        Runs(each.remaining - passed, each.tokens + each.pending + passed)
        for each in first
        if passed and each.remaining > passed
    ]
    ended = [each for each in first if passed and each.remaining == passed]
    new = forecast_of([*(now if passed else first), *more], horizon=HORIZON)
    leaving = sum(-(-(each.tokens + each.pending + passed) // 16) for each in ended)
    new._changes[1] -= leaving  # they hold their blocks to the end of that step
    assert old.growth(HORIZON + passed, passed) == new.growth(HORIZON)


@given(SOME, st.integers(0, 60), st.integers(0, 60))
def test_after_an_admission_nobody_that_runs_lacks_a_block_within_the_horizon(
    running: list[Runs], free: int, need: int
) -> None:
    held = held_after(running, 16, HORIZON)
    enough = all(now - held[0] <= free - need for now in held)
    admitted = fits(free, Ask(need), forecast_of(running))
    assert admitted == (need <= free and (enough or not running))


@given(SOME, BLOCK)
def test_looking_further_never_finds_less(running: list[Runs], block: int) -> None:
    forecast = forecast_of(running, block)
    found = [forecast.growth(steps) for steps in range(HORIZON + 1)]
    assert found == sorted(found)
    assert forecast.growth(10 * HORIZON) == found[-1]


def test_one_that_ends_takes_what_it_has_left_and_gives_all_back() -> None:
    ending, staying = Runs(remaining=2, tokens=16 * 9), Runs(remaining=500, tokens=20)
    assert forecast_of([ending]).growth(32) == 1
    assert forecast_of([staying]).growth(32) == 2
    assert forecast_of([ending, staying]).growth(32) == 1
    assert fits(10, Ask(9), forecast_of([ending, staying]))


def test_a_running_prompt_takes_its_blocks_at_once() -> None:
    assert forecast_of([Runs(remaining=500, tokens=8, pending=100)]).growth(1) == 6


def test_nothing_that_runs_means_nothing_to_wait_for() -> None:
    assert fits(10, Ask(10), Forecast(16))
    assert not fits(10, Ask(11), Forecast(16))


def test_who_is_exempt_only_has_to_fit() -> None:
    crowd = forecast_of([Runs(500, 15)] * 20)
    assert not fits(30, Ask(10), crowd)
    assert fits(30, Ask(10, exempt=True), crowd)
    assert not fits(30, Ask(31, exempt=True), crowd)


def test_within_the_step_what_the_running_ones_have_taken_is_not_asked_for_again() -> None:
    crowd = [Runs(500, 16)] * 20
    assert not fits(50, Ask(20), forecast_of(crowd), 32)
    assert fits(30, Ask(10), forecast_of(crowd), 32, after=1)


def test_a_remainder_that_is_no_whole_number_ends_in_the_step_it_reaches_into() -> None:
    forecast = Forecast(16)
    forecast.add(16.2, 0, 1)
    assert forecast.growth(32) == 2
    shorter = Forecast(16)
    shorter.add(16.0, 16, 1)
    assert shorter.growth(32) == 1


@pytest.mark.parametrize(("block", "horizon"), [(0, 32), (16, 0)])
def test_a_block_or_a_horizon_of_nothing_is_refused(block: int, horizon: int) -> None:
    with pytest.raises(ValueError, match="give 1 or more of each"):
        Forecast(block, horizon)
