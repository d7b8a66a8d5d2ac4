"""Pooled statistics and their intervals, counted a second time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry_bench.gates import estimate
from tenantry_core import quantiles

if TYPE_CHECKING:
    from tenantry_bench.gates.estimate import Array, Samples

FEW = settings(max_examples=25, deadline=None)
"""Each example draws hundreds of samples."""
VALUES = st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=40)
BY_SEED = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4)


def by_seed(parts: list[tuple[list[float], list[float]]]) -> list[tuple[int, Samples]]:
    return [(seed, (np.array(a), np.array(b))) for seed, (a, b) in enumerate(parts)]


@FEW
@given(BY_SEED, st.sampled_from([500, 900, 990]))
def test_all_seeds_are_pooled_before_a_percentile_is_taken(
    parts: list[tuple[list[float], list[float]]], thousandths: int
) -> None:
    found = estimate.estimate(by_seed(parts), estimate.ratio(thousandths))
    ours = sorted(value for a, _ in parts for value in a)
    other = sorted(value for _, b in parts for value in b)
    whole = quantiles.quantile(ours, thousandths) / quantiles.quantile(other, thousandths)
    assert found.value == pytest.approx(whole)
    assert found.n == min(len(ours), len(other))
    for (_, value), (a, b) in zip(found.seeds, parts, strict=True):
        alone = quantiles.quantile(sorted(a), thousandths) / quantiles.quantile(
            sorted(b), thousandths
        )
        assert value == pytest.approx(alone)


@FEW
@given(BY_SEED)
def test_an_interval_is_the_same_every_time_and_lies_within_what_can_be_drawn(
    parts: list[tuple[list[float], list[float]]],
) -> None:
    first = estimate.estimate(by_seed(parts), estimate.sums)
    assert first == estimate.estimate(by_seed(parts), estimate.sums)
    low, high = first.interval
    assert low <= high
    least = min(value for a, _ in parts for value in a)
    most = max(value for a, _ in parts for value in a)
    mean_low, mean_high = estimate.bootstrap(
        [samples for _, samples in by_seed(parts)], lambda a, _: float(a.mean())
    )
    assert least * (1 - 1e-9) <= mean_low <= mean_high <= most * (1 + 1e-9)


@FEW
@given(st.floats(0.1, 100.0), st.integers(1, 5))
def test_seeds_that_agree_leave_no_room(value: float, seeds: int) -> None:
    parts = [(seed, (estimate.one(value), estimate.one(2 * value))) for seed in range(seeds)]
    found = estimate.estimate(parts, estimate.sums)
    assert found.value == pytest.approx(0.5)
    assert found.interval == pytest.approx((0.5, 0.5))


def test_nine_of_ten_intervals_hold_the_true_mean() -> None:
    numbers = np.random.default_rng(7)
    held = 0
    for _ in range(40):
        parts = [(seed, (numbers.normal(5.0, 1.0, 30),)) for seed in range(10)]
        low, high = estimate.estimate(parts, estimate.mean).interval
        held += low <= 5.0 <= high
    assert 30 <= held <= 40


def test_a_seed_without_a_sample_counts_only_in_the_pool() -> None:
    empty: Array = np.array([])
    parts = [(1, (np.array([1.0, 3.0]),)), (2, (empty,))]
    found = estimate.estimate(parts, estimate.mean)
    assert found.value == 2.0
    assert [seed for seed, _ in found.seeds] == [1]


def test_nothing_at_all_is_refused() -> None:
    empty: Array = np.array([])
    with pytest.raises(ValueError, match="nothing to judge"):
        estimate.estimate([(1, (empty,))], estimate.mean)


@FEW
@given(VALUES, VALUES)
def test_per_cent_below_is_of_the_means(ours: list[float], other: list[float]) -> None:
    found = estimate.percent_below(np.array(ours), np.array(other))
    means = math.fsum(ours) / len(ours), math.fsum(other) / len(other)
    assert found == pytest.approx(100 * (1 - means[0] / means[1]), abs=1e-6)
