"""Step times of an 8-billion-parameter model on an A100, for tests: exact, with noise on request.

Milliseconds over tokens follow Vidur's profile of the linear operators (MIT), times 1.3 above 128
tokens, over a decode base that was fitted to a real engine; so do the prices of context and
sequences. Between the points the time is interpolated.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import cos, exp, log, pi, sqrt

from tenantry_core.stepmodel import Load

CURVE = (
    *((0, 10.96), (1, 10.96), (16, 11.37), (32, 12.24), (64, 12.52), (72, 13.6), (128, 14.4)),
    *((129, 15.2), (136, 20.7), (144, 20.9), (192, 21.0), (200, 21.3), (256, 22.7), (257, 23.8)),
    *((264, 31.8), (272, 32.3), (384, 33.4), (392, 41.0), (448, 43.0), (512, 43.0), (520, 48.9)),
    *((576, 50.0), (584, 59.0), (640, 60.0), (704, 64.4), (768, 66.0), (776, 81.2), (896, 85.5)),
    *((960, 85.6), (968, 92.0), (1024, 95.5), (1536, 136.8), (2048, 186.5), (4096, 352.0)),
)
"""Tokens and milliseconds."""
CONTEXT = 1.110 * 131072 / 2.039e12
SEQUENCE = 0.0569e-3
ATTENTION = 2.6e-9
NOISE = 0.05
_TOKENS = [tokens for tokens, _ in CURVE]
_SLOPES = [(low, at, (high - low) / (end - at)) for (at, low), (end, high) in pairwise(CURVE)]


def seconds(load: Load) -> float:
    """How long a step with this load takes, without noise."""
    low, at, slope = _SLOPES[max(bisect_left(_TOKENS, load.tokens) - 1, 0)]
    passage = (low + slope * (load.tokens - at)) / 1000.0
    return passage + SEQUENCE * load.decodes + CONTEXT * load.context + ATTENTION * load.work


class Dice:
    """Repeatable chance, a linear congruential generator: the core imports no other."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 0x9E3779B97F4A7C15 + 1

    def random(self) -> float:
        """From 0 to below 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 11) / 2**53

    def uniform(self, low: float, high: float) -> float:
        """Between the two."""
        return low + (high - low) * self.random()

    def integer(self, low: int, high: int) -> int:
        """One of these, both included."""
        return low + int((high - low + 1) * self.random())

    def choice(self, items: Sequence[int]) -> int:
        """One of them."""
        return items[int(len(items) * self.random())]

    def log_normal(self, sigma: float) -> float:
        """The median is 1."""
        radius = sqrt(-2.0 * log(1.0 - self.random()))
        return exp(sigma * radius * cos(2.0 * pi * self.random()))


def measured(load: Load, dice: Dice, pauses: float = 0.0) -> float:
    """The same with log-normal noise; a part `pauses` of the steps takes fifty times as long."""
    noise = dice.log_normal(NOISE)
    return seconds(load) * noise * (50.0 if dice.random() < pauses else 1.0)
