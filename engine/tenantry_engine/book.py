"""The books of the engine process: who has work, who has been served what, what a step cost.

A step passes through here three times: `attend` before it is planned (who is here), `begun` when it
has been scheduled (charged at its predicted time) and `ended` when its output is back (corrected to
the time that it took). Several steps may be under way; they end in the order in which they began.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenantry_api.choices import Fairness
from tenantry_core.foresight import Foresight
from tenantry_core.ledger import Ledger
from tenantry_core.revision import Revision, Row
from tenantry_core.stepmodel import Learned, Load, Priced, StepTimes
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.presence import Presence
from tenantry_engine.translate import Reading, Served

OUTPUT_PRICE: Final = 2.0
"""`fairness: Tokens` counts an output token twice, as in VTC."""
CREDIT: Final[Mapping[Fairness, float]] = {
    Fairness.GPU_TIME: 0.001,
    Fairness.TOKENS: 1.0,
    Fairness.NONE: 0.001,
}
"""What a newcomer is put ahead of those with whom it draws level, in the unit of the charge."""


DECODES: Final = object()
CONTEXT: Final = object()
"""Payers of all tokens of decode in a step, and of all the context that they attend to. What a
tenant pays is linear in both, so that two parts stand for those of all tenants."""


@dataclass(slots=True)
class Step:
    """A step under way. `output` is only compared by identity."""

    output: Any
    began: float
    load: Load
    given: Reading
    predicted: float
    charged: Mapping[str, float]


class Book:
    """The books. Times are seconds of one monotonic clock; the caller reads it."""

    def __init__(
        self, config: EngineConfig, metrics: EngineMetrics, model: StepTimes | None = None
    ) -> None:
        self.model: StepTimes = Learned() if model is None else model
        self.presence = Presence()
        self.metrics = metrics
        self._config = config
        self._steps: deque[Step] = deque()
        self._last_end = float("-inf")
        self._seconds: dict[str, float] = {}
        self._outputs: dict[str, int] = {}
        self._prompts: dict[str, Served] = {}
        self.ledger = self._new_ledger()
        self._priced = self.model if isinstance(self.model, Priced) else None
        self._revision: Revision[str] = Revision()
        self.foresight = Foresight()

    def reconfigure(self, config: EngineConfig) -> None:
        """Other weights, or another unit of charge: then everybody starts level."""
        unit = self._config.fairness
        self._config = config
        if config.fairness == unit:
            self.ledger.reweigh(config.weight_of, config.tier_of)
        else:
            self.ledger = self._new_ledger()
            self._revision = Revision()
            for step in self._steps:
                step.charged = {}  # charged in the other unit; the whole cost comes when they end

    def attend(self, now: float, present: frozenset[str]) -> None:
        """Who has work now, said at the start of each step."""
        self.presence.here(now, present)
        self.ledger.attend(present)

    def begun(self, output: Any, given: Reading, now: float) -> None:
        """A step has been scheduled: prompts are charged as predicted. Tokens of decode are charged
        when they are back: they are alike from step to step, and many."""
        if not given:
            return
        load = _load(given)
        predicted = self.model.predict(load)
        step = Step(output, now, load, given, predicted, {})
        if given.prompts:
            self.ledger.begin(given.prompts)
            step.charged = self._advance(given, load, predicted)
            for tenant, cost in step.charged.items():
                self.ledger.charge(tenant, cost)
            for tenant, served in given.prompts.items():
                known = self._prompts.get(tenant)
                if known is None:
                    known = self._prompts[tenant] = Served()
                known.add(served)
        self._steps.append(step)

    def ended(self, output: Any, generated: Mapping[str, int], now: float) -> None:
        """The output of a step is back: learn from it, and correct what was charged."""
        for tenant, count in generated.items():
            self._outputs[tenant] = self._outputs.get(tenant, 0) + count
        step = self._take(output)
        if step is None:
            return
        seconds = max(now - max(step.began, self._last_end), 0.0)
        self._last_end = now
        parts = self._divided(step, seconds)
        if self._priced is not None and self._revised and len(parts) > 1:
            self._revision.paid(step.load, _rows(step.given), self._priced.prices)
        for tenant, cost in self._prices(step, parts, generated).items():
            self.ledger.charge(tenant, cost - step.charged.get(tenant, 0.0))
        self.metrics.step(seconds, step.predicted)
        self.presence.serve(now, parts)
        for tenant, part in parts.items():
            self._seconds[tenant] = self._seconds.get(tenant, 0.0) + part
        self.model.observe(step.load, seconds)

    def preempted(self, tenant: str, cause: str) -> None:
        """A running request of the tenant has gone back to the queue."""
        self.metrics.preempted(tenant, cause, "reactive")

    def inverted(self, tenant: str) -> None:
        """A tenant below its share has waited beyond the seat bound."""
        self.metrics.inversion(tenant)

    def report(self) -> None:
        """Show what has been given since the last report, and how it is shared."""
        for tenant, count in self._outputs.items():
            self.metrics.tokens(tenant, "output", count)
        for tenant, seconds in self._seconds.items():
            self.metrics.gpu_seconds(tenant, seconds)
        self._count(self._prompts)
        self._outputs, self._seconds, self._prompts = {}, {}, {}
        self._gauge()

    def _gauge(self) -> None:
        everybody = {*self._config.known, *self.presence.seen}
        for tenant in everybody:
            running, waiting = self.presence.of(tenant)
            self.metrics.requests(tenant, running, waiting)
        attained = self.presence.attained()
        weights = {tenant: self._config.weight_of(tenant) for tenant in everybody}
        named = self._config.tenants or self._config.known
        declared = _ratios({tenant: weights[tenant] for tenant in named})
        entitled = _entitled(weights, attained, self.presence.backlogged())
        for tenant in everybody:
            self.metrics.shares(
                tenant,
                declared.get(tenant, 0.0),
                entitled.get(tenant, 0.0),
                attained.get(tenant, 0.0),
            )
        self.metrics.jain(_jain(attained, entitled))

    def tidy(self, now: float) -> None:
        """About once a second: take back what was charged by prices that have changed, drop what is
        known of tenants that are neither configured nor seen of late."""
        self._revise(now)
        self.presence.forget(now)
        self.ledger.forget({*self._config.known, *self.presence.seen})

    @property
    def _revised(self) -> bool:
        """Whether charges depend on prices."""
        return self._config.fairness != Fairness.TOKENS

    def _revise(self, now: float) -> None:
        if self._priced is not None and self._revised:
            for tenant, owed in self._revision.settle(self._priced.prices, now).items():
                self.ledger.charge(tenant, owed)

    def _new_ledger(self) -> Ledger:
        config = self._config
        return Ledger(config.weight_of, CREDIT[config.fairness], config.tier_of)

    def _advance(self, given: Reading, load: Load, predicted: float) -> dict[str, float]:
        """What the prompts of a step are predicted to cost, by tenant."""
        if self._config.fairness == Fairness.TOKENS:
            return {tenant: float(each.prompt) for tenant, each in given.prompts.items()}
        cost = predicted / load.tokens
        return {t: cost * each.prefill for t, each in given.prompts.items()}

    def _prices(
        self, step: Step, parts: Mapping[str, float], outputs: Mapping[str, int]
    ) -> Mapping[str, float]:
        if self._config.fairness == Fairness.TOKENS:
            prompts = {tenant: each.prompt for tenant, each in step.given.prompts.items()}
            tenants = {*prompts, *outputs}
            return {t: prompts.get(t, 0) + OUTPUT_PRICE * outputs.get(t, 0) for t in tenants}
        return parts

    def _divided(self, step: Step, seconds: float) -> dict[str, float]:
        """Each tenant's part of a step's time."""
        given = step.given
        loads: dict[Any, Load] = {tenant: each.load for tenant, each in given.prompts.items()}
        if given.tokens:
            loads[DECODES] = Load(decodes=given.tokens)
            loads[CONTEXT] = Load(context=given.total)
        parts: dict[Any, float] = self.model.divide(seconds, loads)
        if given.tokens:
            each = parts.pop(CONTEXT) / max(given.total, 1)
            token = parts.pop(DECODES) / given.tokens
            self.foresight.ran(token, each, seconds)
            token += each * given.steps
            origins = given.origins
            shares = {t: token * count + each * origins[t] for t, count in given.decodes.items()}
            for tenant, part in parts.items():
                shares[tenant] = shares.get(tenant, 0.0) + part
            return shares
        return parts

    def _take(self, output: Any) -> Step | None:
        """The step of this output. Those before it never came back; their charge stays."""
        if not any(step.output is output for step in self._steps):
            return None
        while (step := self._steps.popleft()).output is not output:
            pass
        return step

    def _count(self, served: Mapping[str, Served]) -> None:
        for tenant, each in served.items():
            if each.prompt:
                self.metrics.tokens(tenant, "prompt", each.prompt)
            if each.queried:
                self.metrics.tokens(tenant, "cached", each.cached)
                self.metrics.prefix(tenant, each.queried, each.cached)
            if each.recomputed:
                self.metrics.recomputed(tenant, each.recomputed)


def _load(given: Reading) -> Load:
    prefill, work = 0, 0.0
    for each in given.prompts.values():
        prefill += each.prefill
        work += each.work
    return Load(prefill, given.tokens, given.total, work)


def _rows(given: Reading) -> Iterator[Row[str]]:
    """What each tenant has of a step: its decodes, and its prompts."""
    origins, steps = given.origins, given.steps
    for tenant, count in given.decodes.items():
        yield tenant, count, count, origins[tenant] + steps * count, 0.0
    for tenant, each in given.prompts.items():
        yield tenant, each.prefill, 0, 0, each.work


def _ratios(values: Mapping[str, float]) -> dict[str, float]:
    total = sum(values.values())
    return {key: value / total if total else 0.0 for key, value in values.items()}


def _entitled(
    weights: Mapping[str, float], attained: Mapping[str, float], backlogged: Iterable[str]
) -> dict[str, float]:
    """Shares of the last minute: who was not backlogged had all it asked for; the others divide the
    rest by weight.
    """
    kept = {tenant for tenant in backlogged if tenant in attained}
    satisfied = {tenant: share for tenant, share in attained.items() if tenant not in kept}
    rest = max(1.0 - sum(satisfied.values()), 0.0)
    parts = _ratios({tenant: weights.get(tenant, 1.0) for tenant in kept})
    return satisfied | {tenant: rest * part for tenant, part in parts.items()}


def _jain(attained: Mapping[str, float], entitled: Mapping[str, float]) -> float | None:
    ratios = [attained[t] / share for t, share in entitled.items() if share > 0]
    squares = sum(ratio * ratio for ratio in ratios)
    return sum(ratios) ** 2 / (len(ratios) * squares) if squares else None
