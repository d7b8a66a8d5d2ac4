"""How long a step takes, learned from the steps that ran, and who pays how much of it.

Step time is taken to be linear in four figures of the batch: one for every step, the prefill
tokens, the decodes, and the context they attend to. The coefficients are the non-negative
least-squares fit to the last steps (older ones fade), held where they were as far as recent steps
do not tell them apart.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Payer = TypeVar("Payer", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Load:
    """What a payer, or a whole step, asks of the engine: prefill, decodes, context; in tokens."""

    prefill: int = 0
    decodes: int = 0
    context: int = 0

    @property
    def tokens(self) -> int:
        """The tokens that go through the model."""
        return self.prefill + self.decodes

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.prefill + other.prefill,
            self.decodes + other.decodes,
            self.context + other.context,
        )


# Each figure is divided by a usual value of it, so that coefficients are of one size: the seconds
# that this much of the figure costs.
SCALES: Final = (1.0, 64.0, 16.0, 8192.0)
# Before the first measurement. It may be wrong by any factor; a few dozen steps replace it.
PRIOR: Final = (0.005, 0.005, 0.002, 0.001)
FADE: Final = 0.98
"""What a step still counts for after the next one: the last 50 carry the fit."""
RIDGE: Final = 0.02
SWEEPS: Final = 12
OUTLIER: Final = 4.0
"""A step that took this many times its prediction (a pause, a compilation) counts as this many."""
TRUSTED: Final = 16
"""Steps after which outliers are cut: until then the prior may be what is wrong."""
LEARNING: Final = 64
INTERVAL: Final = 8
"""The fit is made anew after each of the first steps, then after every eighth."""
SMALLEST: Final = 1e-6


class StepModel:
    """The fit. `observe` takes a step that ran, `predict` answers in seconds."""

    def __init__(self) -> None:
        size = range(len(SCALES))
        self._theta = list(PRIOR)
        self._moments = [[0.0 for _ in size] for _ in size]
        self._products = [0.0 for _ in size]
        self._steps = 0

    def predict(self, load: Load) -> float:
        """Seconds that a step with this load takes."""
        total = sum(t * x for t, x in zip(self._theta, _figures(load), strict=True))
        return max(total, SMALLEST)

    def observe(self, load: Load, seconds: float) -> None:
        """Learn from a step that took so many seconds."""
        if self._steps >= TRUSTED:
            seconds = min(seconds, OUTLIER * self.predict(load))
        self._steps += 1
        figures = _figures(load)
        for i, x in enumerate(figures):
            row = self._moments[i]
            for j, y in enumerate(figures):
                row[j] = FADE * row[j] + x * y
            self._products[i] = FADE * self._products[i] + x * seconds
        if self._steps <= LEARNING or not self._steps % INTERVAL:
            self._fit()

    def divide(self, seconds: float, loads: Mapping[Payer, Load]) -> dict[Payer, float]:
        """Divide a step's seconds among its payers; the parts add up to `seconds`.

        Each pays for its own tokens and context, and for what every step costs by its share of the
        step's tokens: a chunk of 64 tokens carries 64 times as much of it as one decode.
        """
        tokens = sum(load.tokens for load in loads.values())
        fixed = self._theta[0] / max(tokens, 1)
        prices = {payer: self._own(load) + fixed * load.tokens for payer, load in loads.items()}
        total = sum(prices.values())
        if total <= 0:
            prices = {payer: float(load.tokens) for payer, load in loads.items()}
            total = sum(prices.values())
        return _scaled(seconds, prices, total)

    def _own(self, load: Load) -> float:
        figures = _figures(load)
        return sum(t * x for t, x in zip(self._theta[1:], figures[1:], strict=True))

    def _fit(self) -> None:
        """Coordinate descent on the normal equations, pulled towards the last coefficients."""
        last = tuple(self._theta)
        for _ in range(SWEEPS):
            for i, row in enumerate(self._moments):
                others = sum(a * t for a, t in zip(row, self._theta, strict=True))
                rest = self._products[i] - (others - row[i] * self._theta[i]) + RIDGE * last[i]
                self._theta[i] = max(rest / (row[i] + RIDGE), 0.0)


def _figures(load: Load) -> Sequence[float]:
    raw = (1.0, load.prefill, load.decodes, load.context)
    return tuple(x / scale for x, scale in zip(raw, SCALES, strict=True))


def _scaled(seconds: float, prices: Mapping[Payer, float], total: float) -> dict[Payer, float]:
    if total <= 0:
        return dict.fromkeys(prices, seconds / len(prices)) if prices else {}
    parts = {payer: seconds * price / total for payer, price in prices.items()}
    largest = max(parts, key=lambda payer: prices[payer])
    parts[largest] += seconds - sum(parts.values())  # the rounding goes where it is least
    return parts
