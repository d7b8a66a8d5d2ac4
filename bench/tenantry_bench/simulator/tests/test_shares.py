"""Fairness figures of made-up series, where the right value is known."""

from collections.abc import Sequence

import numpy as np
import pytest

from tenantry_bench.simulator import shares
from tenantry_bench.simulator.shares import Series
from tenantry_core import quantiles

WEIGHTS = {"a": 1.0, "b": 3.0}


def a_series(gpu: Sequence[Sequence[float]], waits: bool = True, step: float = 1.0) -> Series:
    """Two tenants; a step a second."""
    table = np.array(gpu, dtype=float)
    return Series(
        ("a", "b"),
        np.array([step * (i + 1) for i in range(len(table))]),
        table,
        10 * table,
        np.full(table.shape, waits),
    )


def test_a_division_by_weight_has_no_error_and_no_gap_but_that_of_a_step() -> None:
    given = a_series([[0.25, 0.75]] * 100)
    assert shares.share_error(given, WEIGHTS) == pytest.approx(0.0, abs=1e-12)
    assert shares.gap(given, WEIGHTS) == pytest.approx(0.0, abs=1e-12)
    assert shares.jain(given, WEIGHTS) == pytest.approx(1.0)


def test_the_error_is_that_of_the_worst_minute() -> None:
    given = a_series([[0.25, 0.75]] * 100 + [[0.5, 0.5]] * 60 + [[0.25, 0.75]] * 100)
    assert shares.share_error(given, WEIGHTS) == pytest.approx(1.0)


def test_the_gap_opens_only_while_both_wait() -> None:
    given = a_series([[1.0, 0.0]] * 10)
    assert shares.gap(given, WEIGHTS) == pytest.approx(10.0)
    assert shares.gap(a_series([[1.0, 0.0]] * 10, waits=False), WEIGHTS) == 0.0


def test_a_gap_that_closes_again_counts_at_its_widest() -> None:
    given = a_series([[1.0, 0.0]] * 5 + [[0.0, 3.0]] * 10)
    assert shares.gap(given, WEIGHTS) == pytest.approx(10.0)


def test_one_tenant_that_gets_all_has_the_worst_index() -> None:
    assert shares.jain(a_series([[1.0, 0.0]] * 5), WEIGHTS) == pytest.approx(0.5)


def test_a_series_shorter_than_the_span_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than 60 s"):
        shares.share_error(a_series([[1.0, 1.0]] * 10), WEIGHTS)


def test_service_over_time_adds_up_in_whole_stretches() -> None:
    middles, service = shares.per_second(a_series([[0.25, 0.75]] * 40, step=0.5), 5.0)
    assert list(middles) == [2.5, 7.5, 12.5, 17.5]
    assert service[1] == pytest.approx([5.0, 15.0])


def test_a_part_of_a_series_has_the_steps_that_ended_in_it() -> None:
    assert list(a_series([[1.0, 1.0]] * 10).between(3.0, 5.0).times) == [3.0, 4.0]


def test_the_bootstrap_is_the_same_every_time_and_holds_the_value() -> None:
    sample = list(np.random.default_rng(5).exponential(2.0, 400))

    def ratio(a: np.ndarray, b: np.ndarray) -> float:
        return float(a.mean() / b.mean())

    low, high = shares.interval([sample, sample], ratio, draws=200)
    assert (low, high) == shares.interval([sample, sample], ratio, draws=200)
    assert low < 1.0 < high


@pytest.mark.parametrize("thousandths", [500, 900, 990, 999])
def test_quantiles_are_those_of_the_rows(thousandths: int) -> None:
    sample = list(np.random.default_rng(5).exponential(2.0, 1234))
    found = quantiles.quantile(sorted(sample), thousandths)
    assert shares.quantile(sample, thousandths) == found
