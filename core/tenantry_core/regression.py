"""Least squares with a prior for a handful of coefficients and an offset for each of many cells.

    y = sum over i of theta_i * x_i + rho_cell * c,    theta ~ N(1, prior), rho ~ N(0, unknown)

A cell keeps the sums of products of what was observed in it, and nothing is forgotten of a cell
that is not visited. The offsets are eliminated cell by cell (Schur complement), so that what only
differs between cells never passes for an effect of x.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Final

SIZE: Final = 6
_PAIRS: Final = [(i, j) for i in range(SIZE) for j in range(i + 1)]
_TRIANGLE: Final = len(_PAIRS)
_C, _Y = SIZE, SIZE + 1
_LEFT: Final = [i for i, _ in _PAIRS] + [_C] * SIZE + [_Y] * SIZE + [_C, _Y]
_RIGHT: Final = [j for _, j in _PAIRS] + [*range(SIZE)] * 2 + [_C, _C]
_CROSS: Final = slice(_TRIANGLE, _TRIANGLE + SIZE)
_PRODUCTS: Final = slice(_TRIANGLE + SIZE, _TRIANGLE + 2 * SIZE)
_SQUARE, _OWN = -2, -1
_ROWS: Final = [slice(i * (i + 1) // 2, i * (i + 1) // 2 + i) for i in range(SIZE)]
UNKNOWN: Final = 0.15**2
"""Variance of an offset before the first visit, where nothing else is given."""
USUAL: Final = 0.05**2
"""For offsets the variance of an observation is taken to be this."""
MOST: Final = 8000.0
"""Visits that a cell remembers; then all of them count half."""

Vector = Sequence[float]


class Cell:
    """Sums of products of what was observed in one cell, and its part of the normal equations."""

    __slots__ = ("_ridge", "_sums", "part", "unknown")

    def __init__(self, unknown: float = UNKNOWN) -> None:
        self.unknown = unknown
        self._ridge = USUAL / unknown
        self._sums = [0.0] * len(_LEFT)
        self.part = [0.0] * (_TRIANGLE + SIZE)

    @property
    def visits(self) -> float:
        """How much was observed here."""
        return self._sums[_SQUARE]

    @property
    def variance(self) -> float:
        """Of the offset, were the coefficients known; at first `unknown`."""
        return USUAL / (self._sums[_SQUARE] + self._ridge)

    def add(self, values: Vector, weight: float) -> list[float]:
        """Take an observation (x, c, y); returns by how much the part has changed."""
        scaled = [weight * value for value in values]
        sums = self._sums = [
            old + scaled[i] * values[j] for old, i, j in zip(self._sums, _LEFT, _RIGHT, strict=True)
        ]
        if sums[_SQUARE] > MOST:
            sums = self._sums = [0.5 * each for each in sums]
        shrunk = 1.0 / (sums[_SQUARE] + self._ridge)
        cross = sums[_CROSS]
        less = [shrunk * each for each in cross]
        own = sums[_OWN]
        part = [sums[k] - cross[i] * less[j] for k, (i, j) in enumerate(_PAIRS)]
        part += [p - own * g for p, g in zip(sums[_PRODUCTS], less, strict=True)]
        change = [new - old for new, old in zip(part, self.part, strict=True)]
        self.part = part
        return change

    def offset(self, theta: Vector) -> float:
        """The offset, given the coefficients."""
        sums = self._sums
        return (sums[_OWN] - dot(sums[_CROSS], theta)) / (sums[_SQUARE] + self._ridge)

    def seen_from(self, figures: Vector, c: float) -> list[float]:
        """What the coefficients still decide of a prediction here, when the offset follows them."""
        part = c / (self._sums[_SQUARE] + self._ridge)
        return [x - part * g for x, g in zip(figures, self._sums[_CROSS], strict=True)]


class Prior:
    """Coefficients about 1, with a common factor and each with its own."""

    def __init__(self, common: float, own: Vector) -> None:
        # Inverse of common * 11' + diag(own), by Sherman and Morrison.
        inverse = [1.0 / each for each in own]
        shared = common / (1.0 + common * sum(inverse))
        self.triangle = [
            (inverse[i] if i == j else 0.0) - shared * inverse[i] * inverse[j] for i, j in _PAIRS
        ]
        rows = square(self.triangle)
        self.products = [sum(row) for row in rows]


class Solved:
    """The coefficients that fit, never negative; and how sure they are."""

    def __init__(self, sums: Vector, prior: Prior, noise: float) -> None:
        self._noise = noise
        triangle = [a + noise * b for a, b in zip(sums[:_TRIANGLE], prior.triangle, strict=True)]
        right = [a + noise * b for a, b in zip(sums[_TRIANGLE:], prior.products, strict=True)]
        self._root = _root(triangle)
        self.theta = _upwards(self._root, _downwards(self._root, right))
        free = list(range(SIZE))
        while min(self.theta) < 0.0:  # those that came out negative are zero; the others again
            free = [i for i in free if self.theta[i] >= 0.0]
            self.theta = _restricted(triangle, right, free)

    def variance(self, figures: Vector) -> float:
        """Of the sum of the coefficients times these figures."""
        solved = _downwards(self._root, figures)
        return self._noise * dot(solved, solved)


def dot(left: Vector, right: Vector) -> float:
    """The sum of products."""
    return sum(x * y for x, y in zip(left, right, strict=True))


def square(triangle: Vector) -> list[list[float]]:
    """The symmetric matrix of a lower triangle."""
    size = range(SIZE)
    return [[triangle[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)] for j in size] for i in size]


def _root(triangle: Vector) -> list[list[float]]:
    """The Cholesky factor; what rounding has made negative is taken as tiny."""
    rows: list[list[float]] = []
    for i in range(SIZE):
        row: list[float] = []
        given = triangle[i * (i + 1) // 2 :]
        for j in range(i):
            other = rows[j]
            row.append((given[j] - sum(map(_times, row, other))) / other[j])
        row.append(sqrt(max(given[i] - sum(map(_times, row, row)), 1e-12)))
        rows.append(row)
    return rows


def _times(x: float, y: float) -> float:
    return x * y


def _downwards(root: Sequence[Vector], right: Vector) -> list[float]:
    solved: list[float] = []
    for row, value in zip(root, right, strict=True):
        solved.append((value - sum(map(_times, row, solved))) / row[-1])
    return solved


def _upwards(root: Sequence[Vector], right: Vector) -> list[float]:
    solved = list(right)
    for i in range(SIZE - 1, -1, -1):
        row = root[i]
        solved[i] = value = solved[i] / row[i]
        for j in range(i):
            solved[j] -= row[j] * value
    return solved


def _restricted(triangle: Vector, right: Vector, free: Sequence[int]) -> list[float]:
    """The solution where all but these coefficients are zero."""
    rows = square(triangle)
    kept = [rows[i][j] if i in free and j in free else float(i == j) for i, j in _PAIRS]
    root = _root(kept)
    values = [value if i in free else 0.0 for i, value in enumerate(right)]
    solved = _upwards(root, _downwards(root, values))
    return [value if i in free else 0.0 for i, value in enumerate(solved)]
