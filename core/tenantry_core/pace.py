"""How many prompt tokens a step holds where the KV cache, not the engine's speed, bounds the load.

An engine fills a step with prompts until its token limit. When the cache is full, prompts come in
bursts: as soon as a request has ended, the next one's prompt fills one long step, in which all
others wait for their token, and then come steps with decodes alone, in which the processor waits
for memory. The same prompt tokens spread over these steps cost less, for they ride along with
weights that are read anyway, and everybody's tokens come sooner.

So a step takes a little more than what steps have held of late. Where that is enough, the mean
stays where it is; where prompts are what the engine lacks time for, every step is full, and the
pace grows until it is the engine's own limit.
"""

from dataclasses import dataclass, field
from typing import Final

STEP: Final = 1.0 / 32.0
"""What the latest step counts for in the mean."""
AHEAD: Final = 1.25
"""Times the mean that a step may hold."""
LEAST: Final = 256
"""Prompt tokens that a step may always hold."""
TILE: Final = 128
"""Tokens by which processors work: a step that begins a tile pays for all of it."""


@dataclass(slots=True)
class Pace:
    """Prompt tokens of a step, from those of steps during which requests waited."""

    _mean: float | None = field(default=None, repr=False)

    def ran(self, prompt: int) -> None:
        """A step held so many prompt tokens while something waited."""
        if self._mean is not None:
            self._mean += STEP * (prompt - self._mean)

    def tokens(self, beside: int, most: int) -> int:
        """Tokens of the next step, of at most `most`, `beside` of which are decodes'."""
        if self._mean is None:
            self._mean = float(most)
        wanted = beside + max(AHEAD * self._mean, LEAST)
        return min(int(-(-wanted // TILE)) * TILE, most)
