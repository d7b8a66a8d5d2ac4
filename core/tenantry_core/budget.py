"""How much one step may hold, and how much work may be thrown away to make room.

A step with many prefill tokens keeps every decode waiting. While more than one tenant is about, a
step holds all decodes and then as much prefill as the predicted step time allows under a ceiling.
Without a given ceiling (`auto`) a step may last a fixed multiple of what its decodes alone would
take: a small one while it holds decodes of a tenant that was served less than the one whose prompt
is next, a larger one otherwise. The first bounds what that tenant's tokens are delayed by; the
second spreads the fixed cost of a step over enough prefill to keep throughput near that of large
steps, and bounds how long a newcomer waits for the step under way.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from tenantry_core.stepmodel import Load, StepModel

PROTECTING: Final = 2.5
RELAXED: Final = 5.0
"""With `auto`: step time allowed, in times of the same step without its prefill, with and without
decodes of a less-served tenant in it."""
FLOOR: Final = 32
"""Prefill tokens that a step may always hold: below this a prompt makes no headway."""
QUANTUM: Final = 16


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What bounds a step: seconds (None = `auto`), and tokens, the engine's own limit."""

    seconds: float | None
    tokens: int
    protecting: bool = True


def chunk(model: StepModel, decodes: Load, context: int, ceiling: Ceiling) -> int:
    """Prefill tokens for a step beside `decodes`: multiples of QUANTUM, up to the engine's limit.

    `context` is what the prompt in turn has computed so far, in tokens.
    """
    room = max(ceiling.tokens - decodes.tokens, 0)
    limit = _seconds(model, decodes, ceiling)
    empty = _time(model, decodes, 0, context)
    # The model is linear in the prompt's tokens, so one quantum tells the price of all.
    price = _time(model, decodes, QUANTUM, context) - empty
    quanta = int((limit - empty) / price) if price > 0 else room
    return min(max(quanta * QUANTUM, FLOOR), room)


def _seconds(model: StepModel, decodes: Load, ceiling: Ceiling) -> float:
    if ceiling.seconds is not None:
        return ceiling.seconds
    alone = decodes if decodes.decodes else Load(decodes=1)
    return (PROTECTING if ceiling.protecting else RELAXED) * model.predict(alone)


def _time(model: StepModel, decodes: Load, prefill: int, context: int) -> float:
    return model.predict(decodes + Load(prefill=prefill, context=context + prefill))


class Allowance:
    """A share of all time that may be spent on something, over a sliding window."""

    def __init__(self, share: float, window: float) -> None:
        self._limit = share * window
        self._window = window
        self._spent: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def allows(self, seconds: float, now: float) -> bool:
        """Whether so much more fits now. Changes nothing but what has left the window."""
        while self._spent and self._spent[0][0] <= now - self._window:
            self._sum -= self._spent.popleft()[1]
        return self._sum + seconds <= self._limit

    def spend(self, seconds: float, now: float) -> None:
        """Write down that it was spent."""
        self._spent.append((now, seconds))
        self._sum += seconds
