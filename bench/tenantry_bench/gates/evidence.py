"""What one simulation showed, as it is kept: every request, and tokens and time by the second.

Windows are applied when a row is made of it, so that a run serves rows with different windows. They
begin and end at whole seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Window = tuple[float, float]

FINISHED, UNFINISHED, REFUSED, FAILED = "finished", "unfinished", "refused", "failed"
TTFT: Final = "ttft"
E2E: Final = "e2e"
ITL: Final = "itl"


@dataclass(frozen=True)
class Request:
    """One request: whose, when it was due, its waits in seconds (None: not over at the end), what
    became of it, and the GPU seconds that it asks for.
    """

    tenant: str
    due: float
    ttft: float | None
    e2e: float | None
    state: str
    work: float


class Evidence:
    """Reads a kept result of a simulation."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.tenants: tuple[str, ...] = tuple(body["tenants"])
        self.end = float(body["end"])
        self.cpu = float(body["cpu"])
        self.window: Window = (float(body["window"][0]), float(body["window"][1]))
        self.shares: Mapping[str, float] = body["shares"]
        self.requests = {name: Request(*each) for name, each in body["requests"].items()}
        self._times: Mapping[str, list[float]] = body["times"]
        self._bins: Mapping[str, list[list[float]]] = body["bins"]

    def measured(self, window: Window | None = None, tenant: str = "") -> dict[str, Request]:
        """The requests that were due in the window, of one tenant or of all."""
        low, high = window or self.window
        return {
            name: each
            for name, each in self.requests.items()
            if low <= each.due < high and tenant in ("", each.tenant)
        }

    def waits(
        self, kind: str, tenant: str = "", window: Window | None = None
    ) -> NDArray[np.float64]:
        """Seconds: `ttft`, `e2e` or `itl`. What was not over at the end counts with its wait so
        far, what was refused or failed has none.
        """
        found: list[float] = []
        for name, each in self.measured(window, tenant).items():
            if each.state in (FINISHED, UNFINISHED):
                found += self._itl(name, each) if kind == ITL else [self.wait(kind, each)]
        return np.array(found, dtype=float)

    def wait(self, kind: str, each: Request) -> float:
        """One request's wait, so far where it is not over."""
        value = each.ttft if kind == TTFT else each.e2e
        return max(self.end - each.due, 0.0) if value is None else value

    def _itl(self, name: str, each: Request) -> list[float]:
        times = self._times[name]
        found = [b - a for a, b in pairwise(times)]
        if each.state == UNFINISHED and times:
            found.append(max(self.end - each.due - times[-1], 0.0))
        return found

    def count(self, state: str, window: Window | None = None) -> int:
        """Requests that were due in the window and ended that way."""
        return sum(each.state == state for each in self.measured(window).values())

    def total(self, kind: str, tenant: str = "", window: Window | None = None) -> float:
        """`service`, `gpu`, `preempted` or `recomputed` in the window, of a tenant or of all."""
        low, high = window or self.window
        rows = np.array(self._bins[kind], dtype=float)[int(low) : int(min(high, self.end + 1))]
        if not len(rows):
            return 0.0
        return float(rows.sum() if not tenant else rows[:, self.tenants.index(tenant)].sum())

    def over_time(self, kind: str, tenant: str, width: int) -> NDArray[np.float64]:
        """A second's mean of each whole stretch of `width` seconds."""
        column = np.array(self._bins[kind], dtype=float)[:, self.tenants.index(tenant)]
        whole = len(column) // width
        means: NDArray[np.float64] = column[: whole * width].reshape(whole, width).mean(axis=1)
        return means
