"""Admission within one step: what the queue offers to vLLM, and what became of it.

vLLM asks the queue inside `schedule()` as often as it has a seat and tokens left. Whether it
admitted what it was offered shows in its running list when it asks again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenantry_core.ledger import Ledger
from tenantry_core.stepmodel import Load, StepTimes, prompt_work
from tenantry_engine.fitting import Fitting
from tenantry_engine.gate import AHEAD, Admission, Gate, Place
from tenantry_engine.lanes import Lane
from tenantry_engine.view import View
from tenantry_engine.waiting import ONE_LANE, first

EVERYBODY: Final = 1 << 30
"""Seats that one lane for all is entitled to: whatever there is."""


@dataclass(slots=True)
class Step:
    """Admission in the step under way: its gate, whose turn it is, and what was offered last."""

    gate: Gate
    admission: Admission | None = None
    offer: Any | None = None


@dataclass(slots=True)
class _Rest:
    """Those who wait and have their share of the seats: all lanes but those `below`. These are put
    ahead, so that none of them precedes the first of them by its own tag."""

    ledger: Ledger
    lanes: Mapping[str, Lane]
    below: frozenset[str]

    def precede(self, place: Place) -> bool:
        """Whether one of them goes before this place of one below."""
        return self.ledger.precedes(self.lanes, place)

    def line(self) -> list[Place]:
        """Their places."""
        return self.ledger.line(self.lanes.keys() - self.below)


class Entry:
    """Opens for a step, offers, and closes after it. `step` is None while it is vLLM's own queue
    that counts."""

    def __init__(self, view: View, fitting: Fitting, model: StepTimes) -> None:
        self.step: Step | None = None
        self._view = view
        self._fitting = fitting
        self._model = model

    def begin(self, gate: Gate) -> None:
        """A step begins under the rules of this gate; nothing is offered before `open`."""
        self.step = Step(gate)
        self._view.queue.reconsider()

    def open(self, exempt: Any) -> None:
        """From here on the queue offers what may be admitted; `exempt`: see `Fitting.begin`."""
        step, view = self.step, self._view
        if step is None or step.gate.free < 1 or step.gate.closed:
            return
        self._fitting.begin(exempt)
        lanes, ledger, below = view.queue.lanes, view.book.ledger, step.gate.below
        line = ledger.line(below, AHEAD) if below else []
        rest = _Rest(ledger, lanes, below)
        step.admission = Admission(line, step.gate, self._first, rest, self._came)
        view.queue.reconsider()

    def open_one(self) -> None:
        """The same with one lane, from which whatever fits may enter."""
        lane = next(iter(self._view.queue.lanes), ONE_LANE)
        gate = Gate({lane: EVERYBODY}, {}, self._view.free_seats())
        self._fitting.begin(_nobody)
        self.step = Step(gate, Admission([(0, 0.0, lane)], gate, self._first))
        self._view.queue.reconsider()

    def shut(self) -> None:
        """Nobody enters in this step any more."""
        if self.step is not None:
            self.step.gate.closed = True
            self.step.admission = None
        self._view.queue.reconsider()

    def choose(self, lanes: Mapping[str, Lane]) -> Any | None:
        """What the queue offers: the head of its one lane, or whoever may enter."""
        step = self.step
        if step is None:
            return first(lanes)
        if step.admission is None:
            return None
        self._settle(step)
        step.offer = step.admission.next()
        return step.offer

    def close(self) -> None:
        """The step has been scheduled: what was offered last was admitted, or turned away."""
        if self.step is None:
            return
        offered = self._view.queue.offered
        self._settle(self.step)
        if offered is not None and self._view.scheduler.ready(offered):
            self._fitting.refused(offered)
        self.step = None

    def _settle(self, step: Step) -> None:
        """The last offer was admitted, or else vLLM passed it over."""
        running, offer = self._view.scheduler.running, step.offer
        if offer is None or not running or running[-1] is not offer:
            return
        step.offer = None
        self._fitting.admitted(offer)
        tenant = self._view.reader.tenant(offer)
        if step.gate.free == 1 or step.admission is None:
            step.gate.take(tenant)
            return
        tokens = offer.num_tokens
        load = Load(prefill=tokens, work=prompt_work(0, tokens))
        price = self._model.predict(load) / self._view.book.ledger.divisor(tenant)
        step.admission.taken(tenant, price)

    def _came(self, lane: str) -> float:
        """When the head of a lane arrived; of one that is empty by now, never."""
        requests = self._view.queue.lanes.get(lane)
        return math.inf if requests is None else float(requests.head.arrival_time)

    def _first(self, lane: str) -> Any | None:
        """The first request of a lane that can be offered."""
        requests = self._view.queue.lanes.get(lane)
        return None if requests is None else self._fitting.first(requests)


def _nobody(_tenant: str, _need: int) -> bool:
    """Where tenants are not told apart nobody is below its share."""
    return False
