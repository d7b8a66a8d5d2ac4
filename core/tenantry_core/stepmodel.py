"""How long a step takes, learned from the steps that ran, and who pays how much of it.

    T = curve(tokens) + offset(bucket) * shape(tokens) + a * decodes + b * context + c * work
    curve(n) = fixed + token * min(n, knee) + beyond * max(n - knee, 0), shape = the prior's curve

The six coefficients start from a prior. The median of the first steps over their prediction sets
the scale of all of them. After that they are the least squares of what was observed, pulled towards
the prior's proportions: what steps do not tell apart keeps those, so that a prior wrong by a factor
is put right everywhere and not only where steps ran. An offset for each bucket of tokens holds the
staircase (`tiles`); it is remembered for as long as nobody visits. When steps become slower or
faster than predicted, whatever they hold, everything is scaled by that.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from tenantry_core import regression
from tenantry_core.prior import SHIPPED, Prior
from tenantry_core.regression import Cell, Solved
from tenantry_core.tiles import BUCKETS, FINE, FINE_END, bucket, spread, unknown

Payer = TypeVar("Payer", bound=Hashable)


@dataclass(slots=True)  # not frozen: a step makes dozens of them, at a quarter of the time
class Load:
    """What a payer, or a whole step, asks of the engine.

    `prefill` and `decodes` are tokens that go through the model, `context` the tokens that decodes
    attend to, `work` the attention of prompts: chunk * (done + chunk / 2), in tokens x tokens.
    """

    prefill: int = 0
    decodes: int = 0
    context: int = 0
    work: float = 0.0

    @property
    def tokens(self) -> int:
        """The tokens that go through the model."""
        return self.prefill + self.decodes

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.prefill + other.prefill,
            self.decodes + other.decodes,
            self.context + other.context,
            self.work + other.work,
        )


class Prices(NamedTuple):
    """Seconds for a decode, for a token of context that decodes attend to, for a unit of a
    prompt's attention work."""

    decode: float
    context: float
    work: float

    def of(self, decodes: float, context: float, work: float) -> float:
        """Seconds of so much of each."""
        return self.decode * decodes + self.context * context + self.work * work


def prompt_work(done: int, chunk: int) -> float:
    """Attention work of a chunk of a prompt of which `done` tokens are computed."""
    return chunk * (done + chunk / 2)


class StepTimes(Protocol):
    """What is asked of a model of step times; seconds throughout."""

    def predict(self, load: Load) -> float:
        """How long a step with this load takes."""
        ...

    def observe(self, load: Load, seconds: float) -> None:
        """A step with this load took so long."""
        ...

    def divide(self, seconds: float, loads: Mapping[Payer, Load]) -> dict[Payer, float]:
        """The parts of a step, by payer; they add up to `seconds`."""
        ...


@runtime_checkable
class Priced(StepTimes, Protocol):
    """A model whose prices change as it learns."""

    @property
    def prices(self) -> Prices:
        """What each pays for its own, in seconds."""
        ...


SMALLEST: Final = 1e-6
FIRST: Final = 8
"""Steps whose median ratio sets the scale. One of them may be a compilation."""
COMMON: Final = 0.3**2
OWN: Final = (0.1**2, 0.5**2, 0.5**2, 0.2**2, 0.1**2, 0.15**2)
"""Variances of the coefficients over the prior's: of their common factor, and of each. How dear KV
is beside weights follows from their sizes; what a decode adds, from the host."""
NOISE: Final = (0.05**2, 0.01**2, 0.3**2)
"""Variance of a step's time over its prediction: at first, and its bounds."""
NOISE_RATE: Final = 0.02
CUT: Final = 3.0
"""A step off by more standard deviations than this (a pause) counts the less the farther off."""
OPEN: Final = 0.5
"""Variance of the prediction after the first step; it goes down with their number."""
FIT_EVERY: Final = 8
"""Steps between two fits; a new bucket is fitted at once."""
WINDOW: Final = 16
"""Steps, in buckets visited before, from which it is judged whether the engine has changed."""
FAMILIAR: Final = 4.0
SHIFT: Final = 1.75
"""The engine has changed if the medians of two windows in a row are off to the same side by so many
standard deviations of one step, seven of their own: while a load ramps up, sizes that are new are
off by one and more."""
LEAST, MOST = -0.7, 3.0
"""Bounds of an offset."""
LARGEST: Final = 1e3
ERROR_RATE: Final = 0.02


class Learned:
    """The model. `bias` multiplies what the prior predicts."""

    def __init__(self, prior: Prior = SHIPPED, bias: float = 1.0) -> None:
        self.error = 0.0
        """Recent mean of |measured / predicted - 1|."""
        self._knee = prior.knee
        self._first: list[tuple[Load, float]] | None = []
        self._steps = 0
        self._noise = self._calm = NOISE[0]
        self._cells: dict[int, Cell] = {}
        self._sums = [0.0] * len(Cell().part)
        self._solved = Solved(self._sums, PRIOR, self._noise)
        self._offsets = [0.0] * BUCKETS
        self._window: list[float] = []
        self._suspected = 0.0
        self._scale(tuple(bias * each for each in prior.coefficients()))

    def predict(self, load: Load) -> float:
        """Seconds that a step with this load takes."""
        tokens = load.prefill + load.decodes
        fixed, token, beyond, decode, context, work = self._prices
        extra = self._offsets[(tokens + FINE - 1) // FINE if tokens <= FINE_END else bucket(tokens)]
        shape_fixed, shape_token, shape_beyond = self._shape
        seconds = fixed + extra * shape_fixed + (token + extra * shape_token) * tokens
        if tokens > self._knee:
            seconds += (beyond + extra * shape_beyond) * (tokens - self._knee)
        seconds += decode * load.decodes + context * load.context + work * load.work
        return seconds if seconds > SMALLEST else SMALLEST  # noqa: FURB136 - half the time of max()

    def doubt(self, load: Load) -> float:
        """Standard error of the prediction, in seconds: of what is learned, without the noise."""
        values, reference = self._figures(load)
        *figures, shape = values
        cell = self._cells.get(bucket(load.tokens), _NEVER)
        seen = cell.seen_from(figures, shape)
        variance = self._solved.variance(seen) + cell.variance * shape * shape
        return reference * sqrt(variance)

    def observe(self, load: Load, seconds: float) -> None:
        """Learn from a step that took so many seconds."""
        if load.tokens <= 0 or not 0.0 < seconds < inf:
            return
        off = abs(seconds / self.predict(load) - 1.0)
        self.error += ERROR_RATE * (min(off, 1.0) - self.error)
        if self._first is None:
            self._learn(load, seconds)
        else:
            self._first.append((load, seconds))
            self._begin(self._first)

    @property
    def prices(self) -> Prices:
        """What each pays for its own, in seconds."""
        _, _, _, decode, context, work = self._prices
        return Prices(decode, context, work)

    def divide(self, seconds: float, loads: Mapping[Payer, Load]) -> dict[Payer, float]:
        """Divide a step's seconds among its payers; the parts add up to `seconds`.

        Each pays for its own decodes, context and attention, and for the rest, the passage through
        the model, by its share of the step's tokens: a chunk of 64 tokens carries 64 times as much
        of the fixed cost as one decode. What the passage takes is not asked of the model.
        """
        tokens = sum(load.tokens for load in loads.values())
        prices = self.prices
        own = {p: prices.of(load.decodes, load.context, load.work) for p, load in loads.items()}
        total = sum(own.values())
        # A pause that ends early, or a wrong price: what is each one's own is at most the step.
        kept = min(seconds / total, 1.0) if total > 0.0 else 0.0
        if not tokens:
            return _scaled(seconds, own)
        each = (seconds - kept * total) / tokens
        return {p: each * load.tokens + kept * own[p] for p, load in loads.items()}

    def _begin(self, first: Sequence[tuple[Load, float]]) -> None:
        """Set the scale by the median of the first steps; then learn from all of them."""
        ratios = sorted(seconds / self.predict(load) for load, seconds in first)
        self._rescale(ratios[len(ratios) // 2])
        if len(first) >= FIRST:
            self._first = None
            for load, seconds in first:
                self._learn(load, seconds)

    def _figures(self, load: Load) -> tuple[list[float], float]:
        """What the coefficients and the offset are multiplied by, over a reference in seconds."""
        low = min(load.tokens, self._knee)
        fixed, token, beyond, decode, context, work = self._units
        passage = (fixed, token * low, beyond * (load.tokens - low))
        figures = (*passage, decode * load.decodes, context * load.context, work * load.work)
        reference = max(self.predict(load), 0.1 * sum(figures))
        return [*(each / reference for each in figures), sum(passage) / reference], reference

    def _learn(self, load: Load, seconds: float) -> None:
        self._steps += 1
        values, reference = self._figures(load)
        at = bucket(load.tokens)
        cell = self._cells.get(at)
        if cell is None:
            cell = self._cells[at] = Cell(unknown(at))
        new = cell.visits <= 0.0
        measured = min(seconds / reference, LARGEST)
        off = measured - self.predict(load) / reference
        expected = cell.variance * values[-1] ** 2 + OPEN / self._steps
        weight = self._judged(off, expected)
        if cell.visits >= FAMILIAR:
            self._window.append(off)
        change = cell.add([*values, measured], weight)
        self._sums = [old + each for old, each in zip(self._sums, change, strict=True)]
        if len(self._window) >= WINDOW:
            self._follow()
        if new or not self._steps % FIT_EVERY:
            self._fit()

    def _judged(self, off: float, expected: float) -> float:
        """The weight of a step that is off by so much where this variance is expected beside the
        noise."""
        seen = min(max(off * off - expected, 0.0), CUT * CUT * self._noise)
        _, least, most = NOISE
        self._noise += NOISE_RATE * (seen - self._noise)
        self._noise = min(max(self._noise, least), most)
        allowed = CUT * CUT * (expected + self._noise)
        return min(allowed / (off * off), 1.0) if off else 1.0

    def _follow(self) -> None:
        """Scale everything if the steps of two windows were slower, or faster, than predicted."""
        window = sorted(self._window)
        self._window = []
        middle = (window[len(window) // 2] + window[(len(window) - 1) // 2]) / 2
        suspected = self._suspected
        self._suspected = middle if abs(middle) > SHIFT * sqrt(self._calm) else 0.0
        if not self._suspected:
            self._calm = self._noise  # what a change adds to the noise must not hide it
        if self._suspected * suspected > 0.0:
            self._rescale(1.0 + (self._suspected + suspected) / 2)
            self._suspected = 0.0

    def _fit(self) -> None:
        self._solved = Solved(self._sums, PRIOR, self._noise)
        theta = self._solved.theta
        known = {
            at: (min(max(cell.offset(theta), LEAST), MOST), 1.0 - cell.variance / cell.unknown)
            for at, cell in self._cells.items()
        }
        self._offsets = spread(known)
        self._price()

    def _rescale(self, factor: float) -> None:
        self._scale(tuple(factor * unit for unit in self._units))

    def _scale(self, units: tuple[float, ...]) -> None:
        """Set the seconds that a coefficient of 1 stands for; what was observed scales along."""
        fixed, token, beyond, decode, context, work = units
        self._units = (fixed, token, beyond, decode, context, work)
        self._shape = (fixed, token, beyond - token)
        self._price()

    def _price(self) -> None:
        units, theta = self._units, self._solved.theta
        a, b, c, d, e, f = (x * y for x, y in zip(units, theta, strict=True))
        self._prices = (a, b, c - b, d, e, f)


PRIOR: Final = regression.Prior(COMMON, OWN)
_NEVER: Final = Cell()


def _scaled(seconds: float, prices: Mapping[Payer, float]) -> dict[Payer, float]:
    total = sum(prices.values())
    if not 0.0 < total < inf:
        return dict.fromkeys(prices, seconds / len(prices)) if prices else {}
    parts = {payer: seconds * price / total for payer, price in prices.items()}
    largest = max(parts, key=lambda payer: prices[payer])
    parts[largest] += seconds - sum(parts.values())  # the rounding goes where it is least
    return parts
