"""What decodes that run already will take: who is about to have more than its part.

A running decode is never paused, so a tenant takes what its decodes cost until they end, whatever
its tag says. If that is more than its part, another request of it only makes it more. So at
admission the excess of the coming second counts as if it had been served: the derivative beside the
ledger's proportional rule. Without it requests that began together keep a tenant now far ahead and
now far behind.
"""

from math import inf
from typing import Final

AHEAD: Final = 1.0
"""Seconds that are looked ahead. Longer ones make admission swing by themselves."""
RATE: Final = 0.01
"""What a step counts in the means."""
PAUSE: Final = 4.0
"""A step of more mean steps than this counts as one of so many."""


class Foresight:
    """Means over the last steps: the price of a token of decode and of a token of its context, and
    the time of a step, in seconds."""

    def __init__(self) -> None:
        self._decode = self._context = self._step = 0.0

    def ran(self, decode: float, context: float, step: float) -> None:
        """A step took so many seconds; a decode in it paid `decode` and `context` for each token of
        context."""
        if not 0.0 < step < inf:
            return
        # A pause says nothing of the steps to come.
        known = min(1.0, PAUSE * self._step / step) if self._step else 1.0
        decode, context, step = known * decode, known * context, known * step
        rate = RATE if self._step else 1.0
        self._decode += rate * (decode - self._decode)
        self._context += rate * (context - self._context)
        self._step += rate * (step - self._step)

    def part(self, decodes: int, context: int) -> float:
        """The part of all time that these decodes take, with so much context together."""
        if not self._step:
            return 0.0
        return (self._decode * decodes + self._context * context) / self._step

    def excess(self, decodes: int, context: int, more: float, part: float) -> float:
        """Seconds of the coming ones that go beyond the tenant's `part` of all time, 0 to 1, when
        there are `more` decodes like these; none without decodes."""
        if decodes <= 0:
            return 0.0
        return AHEAD * max(self.part(decodes, context) * (1.0 + more / decodes) - part, 0.0)
