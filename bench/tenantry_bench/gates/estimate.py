"""Pooled values, one by seed, and bootstrap intervals. Pure.

What is judged is a statistic of several samples, such as P99 of one arm over P99 of another. Each
sample is given by seed. Seeds are the unit that is independent: requests of one run share a queue.
So the bootstrap draws seeds first, the same for all samples (arms with one seed see the same
arrivals), and then anew within each sample of a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tenantry_bench.simulator.shares import LEVEL, quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Statistic = Callable[..., float]
    Samples = Sequence[Array]

DRAWS: Final = 400
LARGE: Final = 20_000
"""Samples beyond which fewer draws are made: the draws then differ little."""
FEW: Final = 100


class EmptyError(ValueError):
    """There is no sample."""


@dataclass(frozen=True)
class Estimate:
    """A statistic of everything, of each seed, and its interval; `n` is the smallest sample."""

    value: float
    seeds: tuple[tuple[int, float], ...]
    interval: tuple[float, float]
    n: int


def estimate(by_seed: Sequence[tuple[int, Samples]], statistic: Statistic) -> Estimate:
    """Return the statistic of samples given by seed, `(seed, (sample, ...))`.

    Raises EmptyError where a pooled sample is empty.
    """
    pooled = _pooled([samples for _, samples in by_seed])
    least = min(len(sample) for sample in pooled)
    if not least:
        raise EmptyError("there is nothing to judge: a sample is empty")
    seeds = tuple(
        (seed, statistic(*samples)) for seed, samples in by_seed if all(map(len, samples))
    )
    return Estimate(
        float(statistic(*pooled)),
        tuple((seed, float(value)) for seed, value in seeds),
        bootstrap([samples for _, samples in by_seed], statistic),
        least,
    )


def bootstrap(
    by_seed: Sequence[Samples], statistic: Statistic, *, seed: int = 1
) -> tuple[float, float]:
    """Return the 90 % interval of a statistic of samples given by seed."""
    numbers = np.random.default_rng(seed)
    size = sum(len(sample) for samples in by_seed for sample in samples)
    draws = DRAWS if size <= LARGE else FEW
    found = []
    for _ in range(draws):
        chosen = numbers.integers(0, len(by_seed), len(by_seed))
        drawn = [[_redrawn(sample, numbers) for sample in by_seed[at]] for at in chosen]
        pooled = _pooled(drawn)
        if all(map(len, pooled)):
            found.append(statistic(*pooled))
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _redrawn(sample: Array, numbers: np.random.Generator) -> Array:
    """Rows drawn with replacement; a sample of one is itself."""
    if len(sample) < 2:
        return sample
    return sample[numbers.integers(0, len(sample), len(sample))]


def _pooled(by_seed: Sequence[Samples]) -> list[Array]:
    return [np.concatenate(parts) for parts in zip(*by_seed, strict=True)]


def ratio(thousandths: int) -> Statistic:
    """The statistic: a quantile of the first sample over that of the second."""
    return lambda ours, other: quantile(ours, thousandths) / quantile(other, thousandths)


def sums(ours: Array, other: Array) -> float:
    """The sum of the first sample over that of the second."""
    return float(ours.sum() / other.sum())


def means(ours: Array, other: Array) -> float:
    """The mean of the first sample over that of the second."""
    return float(ours.mean() / other.mean())


def percent_below(ours: Array, other: Array) -> float:
    """By how many per cent the first sample's mean is below the second's."""
    return 100 * (1 - means(ours, other))


def largest(sample: Array) -> float:
    """The largest of the sample."""
    return float(sample.max())


def smallest(sample: Array) -> float:
    """The smallest of the sample."""
    return float(sample.min())


def mean(sample: Array) -> float:
    """The mean of the sample."""
    return float(sample.mean())


def one(value: float) -> Array:
    """A figure of a whole run as a sample."""
    return np.array([value], dtype=float)
