"""Buckets of tokens, as fine as the tiles of a matrix multiplication.

A matrix multiplication runs in tiles, so that step time over tokens is a staircase: flat up to a
tile's edge, then a jump. A smooth fit misses it by 10 to 25 %. A bucket ends where a tile may end,
so that 128 and 129 tokens never share one.
"""

from collections.abc import Mapping, Sequence
from math import exp
from typing import Final

FINE, FINE_END = 16, 512
MIDDLE, MIDDLE_END = 64, 2048
COARSE, COARSE_END = 256, 16384
_FIRST_MIDDLE: Final = FINE_END // FINE
_FIRST_COARSE: Final = _FIRST_MIDDLE + (MIDDLE_END - FINE_END) // MIDDLE
BUCKETS: Final = _FIRST_COARSE + (COARSE_END - MIDDLE_END) // COARSE + 1
REACH: Final = 64.0
"""Tokens over which what is known of a bucket fades to 1/e for its neighbours."""
KNEE: Final = 128
"""Tokens up to which reading the weights takes longer than the arithmetic, where nothing is known
of the engine."""
UNKNOWN: Final = (0.04**2, 0.15**2)
"""Variance of what a bucket of which nothing is known differs from the fit by: up to KNEE tokens,
and above."""


def bucket(tokens: int) -> int:
    """The bucket of so many tokens; the last one has no end."""
    if tokens <= FINE_END:
        return (tokens + FINE - 1) // FINE
    if tokens <= MIDDLE_END:
        return _FIRST_MIDDLE + (tokens - FINE_END + MIDDLE - 1) // MIDDLE
    return min(_FIRST_COARSE + (tokens - MIDDLE_END + COARSE - 1) // COARSE, BUCKETS - 1)


def _ends() -> list[int]:
    fine = range(0, FINE_END + 1, FINE)
    middle = range(FINE_END + MIDDLE, MIDDLE_END + 1, MIDDLE)
    coarse = range(MIDDLE_END + COARSE, COARSE_END + COARSE + 1, COARSE)
    return [*fine, *middle, *coarse]


ENDS: Final[Sequence[int]] = _ends()
"""The most tokens of each bucket."""
_FADES: Final = [exp((ENDS[i - 1] - ENDS[i]) / REACH) if i else 0.0 for i in range(BUCKETS)]


def unknown(at: int) -> float:
    """Variance of what a bucket differs from the fit by, before the first visit."""
    return UNKNOWN[ENDS[at] > KNEE]


def spread(known: Mapping[int, tuple[float, float]]) -> list[float]:
    """A value for every bucket, from those known: bucket -> (value, how sure, 0 to 1).

    A bucket of which nothing is known gets what its nearest known neighbours on both sides have,
    the less of it the farther they are: far from all of them it is 0.
    """
    below = _carried(known, range(BUCKETS), _FADES)
    above = _carried(known, range(BUCKETS - 1, -1, -1), [*_FADES[1:], 0.0])
    values = [
        (left * near + right * far) / max(near + far, 1.0)
        for (left, near), (right, far) in zip(below, above, strict=True)
    ]
    for at, (value, _) in known.items():
        values[at] = value
    return values


def _carried(
    known: Mapping[int, tuple[float, float]], order: Sequence[int], fades: Sequence[float]
) -> list[tuple[float, float]]:
    """For each bucket the value that comes from one side, and its weight."""
    carried = [(0.0, 0.0)] * len(order)
    value = weight = 0.0
    for at in order:
        weight *= fades[at]
        if at in known and known[at][1] >= weight:
            value, weight = known[at]
        carried[at] = (value, weight)
    return carried
