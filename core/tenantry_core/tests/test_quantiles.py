"""Percentiles are measured values, in order, and absent where the samples cannot carry them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.quantiles import EMPTY, Rolling, quantile, rank, summarize

samples = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=1500)


def test_two_samples_are_not_rounded_to_two_digits() -> None:
    assert quantile([1005.0, 1049.0], 500) == 1005
    assert quantile([1005.0, 1049.0], 990) == 1049


def test_one_sample_is_every_quantile() -> None:
    summary = summarize([575.0])
    assert (summary.p50, summary.p95, summary.max, summary.mean) == (575, 575, 575, 575)


def test_two_slow_of_a_thousand_are_what_p999_shows() -> None:
    assert summarize([0.05] * 998 + [5.0, 5.0]).p999 == 5.0


@pytest.mark.parametrize(
    ("n", "thousandths", "expected"),
    [(1, 500, 1), (2, 500, 1), (100, 990, 99), (150, 990, 149), (1000, 999, 999), (600, 999, 600)],
    ids=["one", "two", "p99 of 100", "p99 of 150", "p999 of 1000", "p999 of 600"],
)
def test_the_rank_is_the_ceiling_of_q_times_n(n: int, thousandths: int, expected: int) -> None:
    assert rank(n, thousandths) == expected


@pytest.mark.parametrize("thousandths", [0, -1, 1001])
def test_a_quantile_outside_the_samples_is_refused(thousandths: int) -> None:
    with pytest.raises(ValueError, match="no rank"):
        rank(10, thousandths)


@pytest.mark.parametrize(
    ("n", "p99", "p999"),
    [(99, False, False), (100, True, False), (999, True, False), (1000, True, True)],
)
def test_a_percentile_that_n_cannot_carry_is_absent(n: int, p99: bool, p999: bool) -> None:
    summary = summarize([1.0] * n)
    assert (summary.p99 is not None, summary.p999 is not None) == (p99, p999)


def test_nothing_measured_is_all_absent() -> None:
    assert summarize([]) == EMPTY


def test_an_unfinished_wait_counts_and_is_marked() -> None:
    summary = summarize([1.0, 2.0], lower_bounds=[9.0])
    assert (summary.n, summary.max, summary.censored) == (3, 9.0, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_sample_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        summarize([1.0, bad])


@given(samples, samples)
def test_the_percentiles_are_in_order_and_were_measured(
    done: list[float], open_: list[float]
) -> None:
    everything = [*done, *open_]
    summary = summarize(done, open_)
    ladder = [summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.max]
    shown = [min(everything), *(value for value in ladder if value is not None)]
    assert shown == sorted(shown)
    assert set(shown) <= set(everything)
    assert summary.mean is not None
    assert min(everything) <= summary.mean <= max(everything)


@given(st.lists(st.floats(0, 1e9) | st.just(math.inf), max_size=60), st.integers(1, 20))
def test_a_rolling_quantile_is_that_of_the_last_values(values: list[float], window: int) -> None:
    rolling = Rolling(0.8, window)
    for value in values:
        rolling.add(value)
    last = sorted(values[-window:])
    assert rolling.value == (last[math.ceil(0.8 * len(last)) - 1] if last else math.inf)
