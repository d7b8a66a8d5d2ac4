"""Percentiles by nearest rank, and only those that the number of samples can carry.

Nearest rank: the q-quantile of n sorted samples is the sample of rank ``ceil(q * n)``. It is always
a value that was measured, so ``min <= p50 <= ... <= max`` holds without rounding. P99 needs 100
samples and P99.9 needs 1,000; below that they would be other names for the maximum and are None.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

METHOD = "nearest rank"

NEEDS: dict[int, int] = {500: 1, 900: 1, 950: 1, 990: 100, 999: 1000}
"""Quantile in thousandths -> the number of samples from which on it is reported."""


@dataclass(frozen=True)
class Summary:
    """What a set of samples looks like; every field but the counts is in the samples' unit.

    ``censored`` of the ``n`` samples are lower bounds: waits that had not ended at the end.
    """

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    censored: int = 0


EMPTY = Summary(0, None, None, None, None, None, None, None)


def rank(n: int, thousandths: int) -> int:
    """Return the 1-based rank of a quantile among `n` samples, in whole numbers throughout."""
    if n < 1 or not 0 < thousandths <= 1000:
        raise ValueError(f"no rank {thousandths}/1000 among {n} samples")
    return -(-n * thousandths // 1000)


def quantile(ordered: Sequence[float], thousandths: int) -> float:
    """Return the sample of nearest rank; `ordered` is sorted and not empty."""
    return ordered[rank(len(ordered), thousandths) - 1]


def summarize(samples: Iterable[float], lower_bounds: Iterable[float] = ()) -> Summary:
    """Summarize finished `samples` and `lower_bounds` (the wait so far of what has not finished).

    Leaving the unfinished out would make the tail look better the worse it gets, so they count with
    what they have waited. Raises ValueError for a sample that is not finite.
    """
    done, open_ = list(samples), list(lower_bounds)
    ordered = sorted([*done, *open_])
    if not ordered:
        return EMPTY
    if not all(map(math.isfinite, ordered)):
        raise ValueError("a sample is not a finite number")
    n = len(ordered)
    mean = min(max(math.fsum(ordered) / n, ordered[0]), ordered[-1])
    carried = {q: quantile(ordered, q) if n >= least else None for q, least in NEEDS.items()}
    return Summary(
        n=n,
        mean=mean,
        p50=carried[500],
        p90=carried[900],
        p95=carried[950],
        p99=carried[990],
        p999=carried[999],
        max=ordered[-1],
        censored=len(open_),
    )


class Rolling:
    """A quantile of the last `window` values, kept up to date; inf before the first.

    `share` is between 0 and 1. Values are compared, so none may be NaN.
    """

    def __init__(self, share: float, window: int) -> None:
        self._share = share
        self._window = window
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []

    def add(self, value: float) -> None:
        """Take a value in, and let the oldest go once the window is full."""
        if len(self._recent) == self._window:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        self._recent.append(value)
        insort(self._ordered, value)

    @property
    def value(self) -> float:
        """The quantile now."""
        n = len(self._ordered)
        return self._ordered[math.ceil(self._share * n) - 1] if n else math.inf
