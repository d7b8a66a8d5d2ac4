"""GPU time and service over time, and how fairly they were divided. All by the cost model's true
times, never by the plugin's own counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tenantry_bench.simulator.record import Log

SPAN: Final = 60.0
"""Seconds over which a share is looked at."""
LEVEL: Final = 0.9
"""Part of the bootstrap's draws that an interval holds."""


@dataclass(frozen=True)
class Series:
    """A row for each step, a column for each tenant: GPU seconds, service, whether a request of the
    tenant waited for its first turn. `times` are when the steps ended.
    """

    tenants: tuple[str, ...]
    times: NDArray[np.float64]
    gpu: NDArray[np.float64]
    service: NDArray[np.float64]
    waits: NDArray[np.bool_]

    def between(self, low: float, high: float) -> Series:
        """The steps that ended in these seconds."""
        inside = (self.times >= low) & (self.times < high)
        return Series(
            self.tenants,
            self.times[inside],
            self.gpu[inside],
            self.service[inside],
            self.waits[inside],
        )


def series(log: Log) -> Series:
    """Return what the steps of one engine gave to each tenant."""
    lines, width = log.lines, len(log.tenants)
    prompt = np.array([line.prompt for line in lines], dtype=float).reshape(-1, width)
    output = np.array([line.output for line in lines], dtype=float).reshape(-1, width)
    return Series(
        log.tenants,
        np.array([line.end for line in lines], dtype=float),
        np.array([line.gpu for line in lines], dtype=float).reshape(-1, width),
        prompt + 2 * output,
        np.array([line.waits for line in lines], dtype=bool).reshape(-1, width),
    )


def _weights(given: Series, weights: Mapping[str, float]) -> NDArray[np.float64]:
    return np.array([weights[name] for name in given.tenants])


def _so_far(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums up to each step, with a row of zeros before the first."""
    return np.vstack([np.zeros(values.shape[1]), np.cumsum(values, axis=0)])


def share_error(given: Series, weights: Mapping[str, float], span: float = SPAN) -> float:
    """Return the largest |share / entitled - 1| of any tenant over any `span` seconds.

    Entitled is the part of its weight: all tenants must have had work throughout.
    """
    if not len(given.times) or given.times[-1] - given.times[0] < span:
        raise ValueError(f"the series is shorter than {span:g} s")
    sums = _so_far(given.gpu)
    ends = np.flatnonzero(given.times >= given.times[0] + span)
    begins = np.searchsorted(given.times, given.times[ends] - span, side="right")
    parts = sums[ends + 1] - sums[begins]
    share = parts / parts.sum(axis=1, keepdims=True)
    entitled = _weights(given, weights) / sum(weights[name] for name in given.tenants)
    return float(np.abs(share / entitled - 1).max())


def gap(given: Series, weights: Mapping[str, float]) -> float:
    """Return the largest difference, in GPU seconds per weight, that opened between two tenants
    while both had a request waiting.
    """
    level = _so_far(given.gpu / _weights(given, weights))
    return max(
        (
            float(np.ptp(level[first : last + 1, a] - level[first : last + 1, b]))
            for a, b in combinations(range(len(given.tenants)), 2)
            for first, last in _runs(given.waits[:, a] & given.waits[:, b])
        ),
        default=0.0,
    )


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Stretches of True, from (inclusive) to (exclusive)."""
    edges = np.diff(np.concatenate([[0], flags.astype(int), [0]]))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [(int(a), int(b)) for a, b in zip(begins, ends, strict=True)]


def jain(given: Series, weights: Mapping[str, float]) -> float:
    """Return Jain's index of GPU time over weight: 1 is perfectly even."""
    level = given.gpu.sum(axis=0) / _weights(given, weights)
    return float(level.sum() ** 2 / (len(level) * (level**2).sum()))


def per_second(given: Series, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of whole stretches of `width` seconds, and the service a second in each,
    a column for each tenant.
    """
    count = int(given.times[-1] // width) if len(given.times) else 0
    at = (given.times // width).astype(int)
    found = np.zeros((count, len(given.tenants)))
    np.add.at(found, at[at < count], given.service[at < count])
    middles: NDArray[np.float64] = (np.arange(count, dtype=np.float64) + 0.5) * width
    return middles, found / width


def interval(
    samples: Sequence[Sequence[float]],
    statistic: Callable[..., float],
    *,
    draws: int = 1000,
    seed: int = 1,
) -> tuple[float, float]:
    """Return the 90 % bootstrap interval of a statistic of several samples.

    Each sample is drawn anew from itself, independently; `statistic` takes them as arrays.
    """
    numbers = np.random.default_rng(seed)
    arrays = [np.asarray(sample, dtype=float) for sample in samples]
    found = [
        statistic(*(array[numbers.integers(0, len(array), len(array))] for array in arrays))
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def quantile(sample: Any, thousandths: int) -> float:
    """Return the sample of nearest rank, as `tenantry_core.quantiles` does, of an array."""
    array = np.asarray(sample, dtype=float)
    at = -(-len(array) * thousandths // 1000) - 1
    return float(np.partition(array, at)[at])
