"""Steps that hold little, so that something is learned which busy steps do not tell.

The ceiling of a step derives from what one decode takes, and what a tenant pays from what decodes
take without prompts and prompts without decodes. On a busy engine such steps would never run.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

PROBE, PATIENCE = 16, 0.1
"""Steps between two that hold one decode and nothing else, at first; and by what part that grows
each time."""
SAMPLE, LENIENCE = 8, 0.01
"""The same of steps with decodes alone, or prompts alone."""


class Probe(Enum):
    """What a step is to hold so that something is learned from it."""

    NONE = "nothing in particular"
    ONE = "one decode"
    DECODES = "the decodes"
    PROMPTS = "a few tokens of prompts"


@dataclass(slots=True)
class _Seldom:
    """Something for one step in so many, then in more and more."""

    wait: float
    growth: float
    after: float = 0.0

    def due(self, steps: int) -> bool:
        """Whether it is time in this step; it stays so until it is done."""
        return steps >= max(self.after, self.wait)

    def done(self, steps: int) -> None:
        """It was done in this step."""
        self.wait *= 1.0 + self.growth
        self.after = steps + self.wait


_AFTER: Final = {Probe.DECODES: Probe.PROMPTS, Probe.PROMPTS: Probe.DECODES}


class Probes:
    """Says which steps are such."""

    def __init__(self) -> None:
        self._steps = 0
        self._ones, self._others = _Seldom(PROBE, PATIENCE), _Seldom(SAMPLE, LENIENCE)
        self._last = Probe.PROMPTS

    def next(self, *, protecting: bool) -> Probe:
        """What the next step should hold. While decodes are protected, only the ceiling matters."""
        if self._ones.due(self._steps + 1):
            return Probe.ONE
        if protecting or not self._others.due(self._steps + 1):
            return Probe.NONE
        return _AFTER[self._last]

    def ran(self, probe: Probe) -> None:
        """A step held this."""
        self._steps += 1
        if probe is Probe.ONE:
            self._ones.done(self._steps)
        elif probe is not Probe.NONE:
            self._others.done(self._steps)
            self._last = probe
