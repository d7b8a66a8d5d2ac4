"""Whether a waiting request may start, given what the running ones are about to take.

An engine admits a request when its prompt fits into the free KV blocks. But each running request
takes one block more every `block` tokens; where nothing was left for that, one of them is sent back
and computed again. The gate admits only what leaves room for the growth of the next few steps. A
request that is predicted to end before then takes only what it has left, and gives everything back.

It is a guess, so it errs to the side that keeps the engine busy: it holds nobody back while nothing
runs, nor whoever the caller exempts (tenants below their share, which must not wait for the
flood of others), and looks only so far ahead as predictions are worth something.
"""

from dataclasses import dataclass
from typing import Final

HORIZON: Final = 96
"""Steps that are looked ahead, each a token of every request: six blocks of 16. A third of that
lets half as many be sent back again; with long answers, whose end is not in sight, it is felt."""


class Forecast:
    """The blocks that running requests take and give back, step by step.

    `add` what runs (a few additions for each), then ask `growth` as often as needed; what is
    admitted is added too, and counts from then on. It stays right for a few steps: say with
    `after` how many have passed, and make it with that much more horizon. `block` is in tokens.
    """

    def __init__(self, block: int, horizon: int = HORIZON) -> None:
        if block < 1 or horizon < 1:
            raise ValueError(f"block and horizon are {block} and {horizon}; give 1 or more of each")
        self.running = 0
        """How many requests were added."""
        self._block = block
        self._horizon = horizon
        self._changes = [0] * (horizon + 2)
        self._held: list[int] | None = None

    def add(self, remaining: float, into: int, held: int, pending: int = 0, after: int = 0) -> None:
        """A request with so many output tokens to come, by prediction, one in each step.

        `into` is how many tokens its last block holds (a full one may be given as 0 or as `block`),
        `held` its blocks, `pending` the prompt tokens to compute before the output goes on: their
        blocks are taken in its first step, however many steps the prompt is spread over. All is
        meant at the end of step `after` of the forecast.
        """
        self.running += 1
        self._held = None
        block, changes, end = self._block, self._changes, self._horizon
        if pending:
            ahead = _blocks(into % block + pending, block) - _blocks(into % block, block)
            changes[min(after, end) + 1] += ahead
            held += ahead
            into += pending
        ends = remaining <= end - after - 1
        if ends:
            end = after + max(-int(-remaining // 1), 1)
        taken = range(after + block - (into - 1) % block, end + 1, block)
        for step in taken:
            changes[step] += 1
        if ends:
            changes[end + 1] -= held + len(taken)

    def growth(self, steps: int, after: int = 0) -> int:
        """The most blocks that are taken, less those given back, at the end of any of the next
        `steps` steps (at most the horizon), counted from the end of step `after`."""
        if self._held is None:
            self._held = _sums(self._changes)
        held = self._held[after : min(steps, self._horizon) + 1]
        return max(held) - held[0] if held else 0


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that would start. `need` are the blocks for its prompt, and for its own growth
    where that shall count; `exempt` is one that only has to fit now."""

    need: int
    exempt: bool = False


def fits(free: int, ask: Ask, forecast: Forecast, steps: int = HORIZON, after: int = 0) -> bool:
    """Whether it may start with so many blocks free, and leave room for `steps` steps of growth.

    `free` is counted when the running requests have been served for `after` steps of the
    forecast: 0 before the engine's step, 1 within it, once those that run have their blocks.
    """
    left = free - ask.need
    if left < 0:
        return False
    return ask.exempt or not forecast.running or left >= forecast.growth(steps, after)


def _blocks(tokens: int, block: int) -> int:
    return -(-tokens // block)


def _sums(changes: list[int]) -> list[int]:
    total, sums = 0, []
    for change in changes:
        total += change
        sums.append(total)
    return sums
