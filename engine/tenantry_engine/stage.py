"""Sets vLLM's scheduler up for the plan of a step, and puts everything back after it."""

from dataclasses import dataclass
from typing import Any

from tenantry_engine import turn
from tenantry_engine.turn import Turn


@dataclass(slots=True)
class Played:
    """A plan that is being carried out: the running list and the knobs as they were before."""

    plan: Turn
    before: list[Any]
    knobs: tuple[Any, ...]


class Stage:
    """One scheduler, a `FairScheduler`, between two of its steps or within one."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._played: Played | None = None

    def set(self, plan: Turn) -> None:
        """Set vLLM up for the plan."""
        scheduler = self._scheduler
        knobs = scheduler.turn_knobs(plan.tokens, plan.threshold, len(plan.hidden))
        self._played = Played(plan, scheduler.running, knobs)
        if plan.visible is not None:
            scheduler.running = list(plan.visible)

    def clear(self) -> None:
        """Put back what was set, if anything was."""
        if self._played is None:
            return
        scheduler, played, plan = self._scheduler, self._played, self._played.plan
        self._played = None
        scheduler.restore_knobs(played.knobs)
        if plan.visible is not None:
            base = len(plan.visible)
            scheduler.running = turn.restored(played.before, plan.hidden, base, scheduler.running)
