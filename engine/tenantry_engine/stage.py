"""Sets vLLM's scheduler up for the plan of a step, and puts everything back after it."""

from dataclasses import dataclass
from typing import Any

from tenantry_api.choices import Ordering
from tenantry_core.pace import Pace
from tenantry_engine import turn
from tenantry_engine.census import Census
from tenantry_engine.translate import Reading
from tenantry_engine.turn import Turn


@dataclass(slots=True)
class Played:
    """A plan that is being carried out: the running list and the knobs as they were before."""

    plan: Turn
    before: list[Any]
    knobs: tuple[Any, ...]


class Stage:
    """One scheduler, a `FairScheduler`, between two of its steps or within one; `paced`: whether
    `keep_pace` does anything."""

    def __init__(self, scheduler: Any, *, paced: bool = True) -> None:
        self._scheduler = scheduler
        self._played: Played | None = None
        self._paced = paced
        self._pace: Pace | None = None

    def ran(self, reading: Reading, waiting: int) -> None:
        """A step gave this, and so many requests waited."""
        if self._pace is not None and waiting:
            self._pace.ran(sum(served.prefill for served in reading.prompts.values()))

    def keep_pace(self, census: Census, ordering: Ordering) -> None:
        """Bound a step of one tenant, beside nothing else, where its prompts would come in bursts.
        First come, first served is vLLM's own order, and has vLLM's own steps."""
        scheduler = self._scheduler
        if not self._paced or ordering == Ordering.FIFO or not scheduler.divisible():
            return
        pace = self._pace = self._pace or Pace()
        most = scheduler.max_num_scheduled_tokens
        tokens = pace.tokens(scheduler.decode_tokens(census), most)
        if tokens < most:
            self.set(Turn(tokens))

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
