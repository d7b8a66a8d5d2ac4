"""A row of the gate table: what is promised, and what was measured."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
)
NO_DATA: Final = "not run: no data"
NOTHING: Final = "nothing to judge"
"""The runs were done, and none of what the row is about happened in them."""
PRINTED: Final = "printed"
REACHED: Final = "reached"
MISSED: Final = "not reached"


@dataclass(frozen=True)
class Claim:
    """What a row promises. `bound` None: the row is printed and judges nothing.

    `unit` is `x` (a ratio), `%`, `s`, `ms`, `GPU s per weight`, or empty. `goal` is the value that
    is reached for beyond the bound, as text.
    """

    id: str
    text: str
    op: str = "<="
    bound: float | None = None
    unit: str = "x"
    goal: str = ""

    def holds(self, value: float, slack: float = 1.0) -> bool | None:
        """Whether a value is within the bound, or within `slack` times its distance from 0.

        None where there is no bound. A lower bound is divided by the slack.
        """
        if self.bound is None:
            return None
        bound = self.bound
        if self.op in OPERATORS and self.op != "==":
            bound = bound * slack if self.op == "<=" else bound / slack
        return OPERATORS[self.op](value, bound)


@dataclass(frozen=True)
class Row:
    """A claim with what was measured: pooled over seeds, each seed, the 90 % bootstrap interval,
    the number of samples, and the command that shows it. `lacking` says why it was not run.
    """

    claim: Claim
    value: float | None = None
    seeds: tuple[tuple[int, float], ...] = ()
    interval: tuple[float, float] | None = None
    n: int = 0
    command: str = ""
    lacking: str = ""
    slack: float = 1.0

    @property
    def reached(self) -> bool | None:
        """None where there is nothing to judge, or nothing to judge by."""
        return None if self.value is None else self.claim.holds(self.value, self.slack)

    @property
    def verdict(self) -> str:
        """One of `reached`, `not reached`, `printed`, `not run: WHY`."""
        if self.value is None:
            return self.lacking or "not run"
        reached = self.reached
        return PRINTED if reached is None else REACHED if reached else MISSED

    def document(self) -> dict[str, Any]:
        """The row of the results document."""
        body = asdict(self.claim)
        return body | {
            "value": self.value,
            "reached": self.reached,
            "verdict": self.verdict,
            "seeds": {str(seed): value for seed, value in self.seeds},
            "interval": self.interval,
            "n": self.n,
            "command": self.command,
        }


def status(rows: list[Row]) -> int:
    """The exit status of a table: 1 a gate was missed, 3 one could not be run, else 0."""
    if any(row.reached is False for row in rows):
        return 1
    missing = any(row.value is None and row.lacking != NOTHING for row in rows)
    return 3 if missing else 0
