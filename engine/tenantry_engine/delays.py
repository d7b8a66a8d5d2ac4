"""By how much the tokens of running requests are late against their tenants' shares.

It is looked at once in a few steps, and only for the tenants asked about. What a request would get
with its tenant alone on its share is reckoned once, when it is first looked at, with the company
that the tenant itself gives it then.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from tenantry_core.lateness import Pace, pace
from tenantry_core.stepmodel import Load, StepTimes, prompt_work

EVERY: Final = 4
"""Steps between two looks: a token's lateness moves by part of a step in each."""


class Delays:
    """`owner` names a request's tenant, and `company` is what a tenant's decodes are as one step.
    `reset` says what part of the engine each tenant is entitled to by its declared weight."""

    def __init__(
        self,
        model: StepTimes,
        owner: Callable[[Any], str],
        company: Callable[[str], Load],
    ) -> None:
        self._model = model
        self._owner = owner
        self._share: Callable[[str], float] = lambda _: 1.0
        self._company = company
        self._arrivals: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._steps = 0
        self._worst = 0.0

    def arrived(self, request: Any, now: float) -> None:
        """A request has come."""
        self._arrivals[request.request_id] = now

    def gone(self, request: str) -> None:
        """It is over."""
        self._arrivals.pop(request, None)
        self._paces.pop(request, None)

    def reset(self, share: Callable[[str], float]) -> None:
        """These shares, 0 to 1, from now on: reckon anew."""
        self._share = share
        self._paces.clear()

    def worst(self, running: Iterable[Any], tenants: Collection[str], now: float) -> float:
        """Seconds by which the latest token of a decode of these tenants is late; at least 0."""
        self._steps += 1
        if not tenants:
            self._worst = 0.0
        elif self._steps % EVERY == 1:
            late = [self._late(each, now) for each in self._of(running, tenants)]
            self._worst = max(0.0, *late, 0.0)
        return self._worst

    def _of(self, running: Iterable[Any], tenants: Collection[str]) -> Iterable[Any]:
        owner = self._owner
        return (r for r in running if owner(r) in tenants and not r.is_prefill_chunk)

    def _late(self, request: Any, now: float) -> float:
        name = request.request_id
        known = self._paces.get(name)
        if known is None:
            known = self._paces[name] = self._pace(request, self._arrivals.get(name, now))
        return known.late(request.num_output_tokens, now)

    def _pace(self, request: Any, arrival: float) -> Pace:
        tenant, prompt = self._owner(request), request.num_prompt_tokens
        whole = Load(prefill=prompt, work=prompt_work(0, prompt))
        step = self._model.predict(self._company(tenant))
        return pace(arrival, self._model.predict(whole), step, self._share(tenant))
