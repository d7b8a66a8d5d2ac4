"""Fits the prices of a cost model to measurements; pure functions over plain lists of numbers.

`dense` turns measured points into a table, `decode`, `attention` and `first_tokens` find the prices
of sequences, context and prompt attention. Prices are never negative. Errors are weighed relative
to the measured time, so that short steps count as much as long ones.
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


class Chunk(NamedTuple):
    """A measured step of one prompt chunk: its tokens, those done before it, milliseconds."""

    tokens: int
    before: int
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
    """Return the function that is linear between the points, and beyond them on the mean slope.

    The mean and not the last slope: tables are staircases.
    """
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    slope = (ys[-1] - ys[0]) / (xs[-1] - xs[0])

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


def attention(chunks: Sequence[Chunk], table: Callable[[float], float]) -> float:
    """Return the price of prompt attention in milliseconds a token squared, from single chunks."""
    times = np.array([chunk.ms for chunk in chunks])
    work = np.array([[chunk.tokens * (chunk.before + chunk.tokens / 2)] for chunk in chunks])
    rest = times - np.array([table(chunk.tokens) for chunk in chunks])
    return nearest(work / times[:, None], rest / times)[0]


def first_tokens(prompts: Sequence[Point], table: Callable[[float], float], chunk: int) -> float:
    """Return the price of prompt attention from whole prompts of a request that was alone.

    `prompts` are tokens and the milliseconds until the first token; they may hold a constant that
    is no step's (the way through the server). A prompt runs in chunks of at most `chunk` tokens.
    """
    linear = [sum(table(part) for part in parts(tokens, chunk)) for tokens, _ in prompts]
    times = np.array([ms for _, ms in prompts])
    rows = np.array([[1.0, tokens * tokens / 2] for tokens, _ in prompts])
    return nearest(rows / times[:, None], (times - np.array(linear)) / times)[1]


class Known(NamedTuple):
    """What is known of an engine before `growth_scale` looks at its prompts: milliseconds."""

    base_ms: float
    attention_ms: float
    chunk: int


def growth_scale(prompts: Sequence[Point], growth: Callable[[float], float], known: Known) -> float:
    """Return the factor on another GPU's dense growth that comes nearest to whole prompts."""
    rows, rest = [], []
    for tokens, ms in prompts:
        chunks = parts(tokens, known.chunk)
        rows.append([1.0, sum(growth(part) - growth(1) for part in chunks)])
        rest.append(ms - known.base_ms * len(chunks) - known.attention_ms * tokens * tokens / 2)
    times = np.array([ms for _, ms in prompts])
    return nearest(np.array(rows) / times[:, None], np.array(rest) / times)[1]


def parts(tokens: int, chunk: int) -> list[int]:
    """Return the chunks that a prompt runs in."""
    whole, rest = divmod(tokens, chunk)
    return [chunk] * whole + ([rest] if rest else [])


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
