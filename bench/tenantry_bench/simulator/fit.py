"""Fits the prices of a cost model to measurements; pure functions over plain lists of numbers.

`dense` turns measured points into a table, `decode` and `prompt` find the prices of sequences,
context and prompt attention. Prices are never negative. Errors are weighed relative to the
measured time, so that short steps count as much as long ones.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Point = tuple[int, float]


class Decode(NamedTuple):
    """A measured step of decodes only: requests, context summed over them, milliseconds."""

    sequences: float
    context: float
    ms: float


class DecodePrices(NamedTuple):
    """Milliseconds of every step, of a sequence, and of a token of context."""

    base_ms: float
    sequence_ms: float
    context_ms: float


def rising(points: Sequence[Point]) -> list[Point]:
    """Return the points by tokens, one for each (the mean), without a fall: the largest so far."""
    by_tokens: dict[int, list[float]] = {}
    for tokens, ms in points:
        by_tokens.setdefault(tokens, []).append(ms)
    found: list[Point] = []
    for tokens in sorted(by_tokens):
        mean = sum(by_tokens[tokens]) / len(by_tokens[tokens])
        found.append((tokens, max(mean, found[-1][1]) if found else mean))
    return found


def thinned(points: Sequence[Point], tolerance: float) -> list[Point]:
    """Return fewer points between which straight lines pass all others within `tolerance` (a part).

    The farthest point splits a stretch that is not straight enough; the ends always stay.
    """
    keep = {0, len(points) - 1}
    stretches = [(0, len(points) - 1)]
    while stretches:
        low, high = stretches.pop()
        (x0, y0), (x1, y1) = points[low], points[high]
        errors = [
            abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y) / y for x, y in points[low + 1 : high]
        ]
        if errors and max(errors) > tolerance:
            middle = low + 1 + errors.index(max(errors))
            keep.add(middle)
            stretches += [(low, middle), (middle, high)]
    return [points[i] for i in sorted(keep)]


def between(points: Sequence[Point]) -> Callable[[float], float]:
    """Return the function that is linear between the points, and beyond the last two."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])

    def at(tokens: float) -> float:
        if tokens > xs[-1]:
            return ys[-1] + slope * (tokens - xs[-1])
        return float(np.interp(tokens, xs, ys))

    return at


def dense(growth: Sequence[Point], base_ms: float, scale: float = 1.0) -> list[Point]:
    """Return a table that begins at `base_ms` and grows as `growth` does, times `scale`."""
    first = growth[0][1]
    return [(tokens, base_ms + scale * (ms - first)) for tokens, ms in growth]


def decode(steps: Sequence[Decode], growth: Callable[[float], float]) -> DecodePrices:
    """Return the prices that come nearest to the steps.

    `growth` is what dense work takes beyond that of one token, in milliseconds by tokens.
    """
    rows = np.array([[1.0, step.sequences, step.context] for step in steps])
    times = np.array([step.ms for step in steps])
    rest = np.array([step.ms - growth(step.sequences) + growth(1) for step in steps])
    return DecodePrices(*nearest(rows / times[:, None], rest / times))


def prompt(prompts: Sequence[Point], table: Callable[[float], float], chunk: int) -> float:
    """Return the price of prompt attention, in milliseconds a token squared.

    `prompts` are tokens and the milliseconds until the first token of a request that is alone; they
    may hold a constant that is no step's (the way through the server). Prompts run in chunks.
    """
    work = [tokens * tokens / 2 for tokens, _ in prompts]
    linear = [
        (tokens // chunk) * table(chunk) + (table(tokens % chunk) if tokens % chunk else 0.0)
        for tokens, _ in prompts
    ]
    times = np.array([ms for _, ms in prompts])
    rows = np.array([[1.0, each] for each in work]) / times[:, None]
    return nearest(rows, (times - np.array(linear)) / times)[1]


def nearest(rows: np.ndarray, wanted: np.ndarray) -> list[float]:
    """Return the least-squares solution without negative numbers: the best over all subsets.

    Prices are few, so that trying every subset of columns is exact and quick.
    """
    columns = rows.shape[1]
    best, least = [0.0] * columns, float(wanted @ wanted)
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            part = rows[:, chosen]
            found, *_ = np.linalg.lstsq(part, wanted, rcond=None)
            error = float(np.sum((part @ found - wanted) ** 2))
            if (found >= 0).all() and error < least:
                least = error
                best = [0.0] * columns
                for at, value in zip(chosen, found, strict=True):
                    best[at] = float(value)
    return best
