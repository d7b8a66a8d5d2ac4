"""Seeded lots for tests of the core, which draws none itself."""

import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

MASK = 2**64 - 1


class Lots:
    """The same seed draws the same lots, on every machine (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Evenly in [low, high)."""
        return low + (high - low) * (self._bits() >> 11) / 2**53

    def below(self, limit: int) -> int:
        """A whole number in 0 .. limit - 1."""
        return int(self.uniform(0.0, limit))

    def pick(self, those: Sequence[T]) -> T:
        """One of them."""
        return those[self.below(len(those))]

    def lognormal(self, mean: float, cv: float) -> float:
        """Log-normal with this mean and coefficient of variation."""
        variance = math.log(1.0 + cv * cv)
        normal = math.sqrt(-2.0 * math.log(1.0 - self.uniform()))
        normal *= math.cos(2.0 * math.pi * self.uniform())
        return mean * math.exp(math.sqrt(variance) * normal - variance / 2.0)

    def _bits(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((self._state ^ (self._state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)
