"""What a real plugin cannot know, for comparison: true lengths, the true cost model, errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator.arrivals import stream
from tenantry_bench.simulator.options import LEARNED, Told
from tenantry_bench.simulator.profiles import Work
from tenantry_core import stepmodel
from tenantry_engine.conductor import Setup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tenantry_bench.simulator.profiles import Costs
    from tenantry_bench.simulator.record import Record


@dataclass(frozen=True)
class TrueLengths:
    """Answers with the true length, or with one that is off by a log-normal factor.

    The factor of a request is drawn once, from its id, so that the answer does not change while it
    waits.
    """

    records: Mapping[str, Record]
    sigma: float = 0.0

    def expect(self, tenant: str, prompt: int, done: int, limit: int, request: str) -> float:
        """Output tokens still to come, at least 1 and at most `limit` - `done`."""
        del tenant, prompt
        true = float(self.records[request].length)
        if self.sigma:
            numbers = stream(0, "", "length", request)
            true *= math.exp(numbers.gauss(0.0, self.sigma))
        return min(max(true - done, 1.0), max(limit - done, 1))

    def finished(self, tenant: str, prompt: int, output: int) -> None:
        """Nothing is left to learn."""

    def evidence(self, tenant: str) -> int:
        """Always the same: what is known never changes."""
        del tenant
        return 1


class TrueModel:
    """Predicts with the cost model that makes the steps (without their noise)."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs

    def predict(self, load: Any) -> float:
        """Seconds of a step with this load."""
        return self._costs.seconds(self._work(load)) if load.tokens else 1e-6

    def observe(self, load: Any, seconds: float) -> None:
        """Nothing is left to learn."""

    def divide(self, seconds: float, loads: Mapping[Any, Any]) -> dict[Any, float]:
        """Divide a step's seconds by the cost model; the parts add up to `seconds`."""
        total = sum(load.tokens for load in loads.values())
        if not total:
            return {payer: seconds / len(loads) for payer in loads}
        mixed = any(load.prefill for load in loads.values()) and any(
            load.decodes for load in loads.values()
        )
        each = self._costs.dense(total, mixed=mixed) / total
        prices = {
            payer: each * load.tokens + self._costs.seconds(self._work(load, dense=False))
            for payer, load in loads.items()
        }
        whole = sum(prices.values())
        parts = {payer: seconds * price / whole for payer, price in prices.items()}
        largest = max(parts, key=lambda payer: parts[payer])
        parts[largest] += seconds - sum(parts.values())
        return parts

    def _work(self, load: Any, *, dense: bool = True) -> Work:
        return Work(
            tokens=load.tokens if dense else 0,
            sequences=load.decodes + (load.prefill > 0),
            context=load.context,
            attention=getattr(load, "work", 0.0),
            mixed=load.prefill > 0 and load.decodes > 0,
        )


def injected(
    lengths: Told, model: Told, costs: Costs, records: Callable[[], Mapping[str, Record]]
) -> dict[str, Any]:
    """Return the fields of `Setup` that tell the plugin more, or less, than it can learn.

    Raises BadInputError where this version's plugin takes none.
    """
    found: dict[str, Any] = {}
    if lengths.kind != LEARNED:
        found["lengths"] = TrueLengths(records(), lengths.value)
    if model.kind == "oracle":
        found["model"] = TrueModel(costs)
    elif model.kind == "bias":
        found["model"] = _biased(model.value)
    missing = sorted(found.keys() - {each.name for each in fields(Setup)})
    if missing:
        raise BadInputError(f"--{missing[0]}: this version's scheduler only learns; leave it out")
    return found


def _biased(factor: float) -> Any:
    learned = getattr(stepmodel, "Learned", None)
    if learned is None:
        raise BadInputError("--model bias: this version's scheduler has no prior to bias")
    return learned(bias=factor)
