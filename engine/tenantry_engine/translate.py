"""What vLLM's objects say, in the words of our decisions.

Only attributes of requests and of scheduler outputs are read here; nothing is changed. A request
is a `vllm.v1.request.Request`, an output a `SchedulerOutput` or the `EngineCoreOutputs` by
client.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tenantry_api import names
from tenantry_core.stepmodel import Load, prompt_work
from tenantry_engine.census import Census

SLACK: Final = 256
"""Ended requests that may be remembered: forgetting reads all."""


@dataclass(slots=True)
class Served:
    """What one tenant gets in one step, in tokens; filled while the step is read.

    `prefill`, `decodes`, `context` and `work` are its load on the engine. `prompt` is prompt tokens
    done for the first time, `cached` those that the prefix cache had, `queried` those looked up in
    it, `recomputed` what had been done before a preemption.
    """

    prefill: int = 0
    decodes: int = 0
    context: int = 0
    work: float = 0.0
    prompt: int = 0
    cached: int = 0
    queried: int = 0
    recomputed: int = 0

    def add(self, other: "Served") -> None:
        """Count what was got in another step as well; for the sums that are shown."""
        self.prompt += other.prompt
        self.cached += other.cached
        self.queried += other.queried
        self.recomputed += other.recomputed

    @property
    def load(self) -> Load:
        """The load on the engine."""
        return Load(self.prefill, self.decodes, self.context, self.work)


def tenant_of(request: Any) -> str:
    """The tenant that the door wrote into the request; `default` where nobody did."""
    if request.sampling_params is not None:
        extra = request.sampling_params.extra_args
    else:
        extra = getattr(request.pooling_params, "extra_kwargs", None)
    tenant = (extra or {}).get(names.EXTRA_ARG)
    return tenant if isinstance(tenant, str) and tenant else names.DEFAULT_TENANT


def decoding(request: Any) -> bool:
    """Whether the prompt of a running request is through, so that each step yields a token."""
    return not request.is_prefill_chunk


def decode_tokens(request: Any) -> int:
    """Tokens that a decoding request takes in the next step: one, and its drafts."""
    wanted = (
        request.num_tokens_with_spec + request.num_output_placeholders - request.num_computed_tokens
    )
    return max(int(wanted), 1)


def generated(outputs: Mapping[int, Any], owners: Mapping[str, str]) -> dict[str, int]:
    """Tokens that came back, by tenant."""
    counts: dict[str, int] = {}
    for each in outputs.values():
        for output in each.outputs:
            if output.new_token_ids:
                tenant = owners.get(output.request_id, names.DEFAULT_TENANT)
                counts[tenant] = counts.get(tenant, 0) + len(output.new_token_ids)
    return counts


@dataclass(slots=True)
class Reading:
    """What a step gives, by tenant: `decodes` are tokens of decode, `origins` is what these
    requests hold after the step, less `steps` for each of their tokens, `prompts` what was given
    beyond that. `tokens` and `total` are the sums of decodes and of what they hold."""

    decodes: dict[str, int] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    prompts: dict[str, Served] = field(default_factory=dict)
    tokens: int = 0
    total: int = 0

    def __bool__(self) -> bool:
        return bool(self.decodes or self.prompts)

    def take_out(self, tenant: str, context: int) -> None:
        """One decode of the tenant got no token after all."""
        self.decodes[tenant] -= 1
        self.origins[tenant] -= context - self.steps
        self.tokens -= 1
        self.total -= context
        if not self.decodes[tenant]:
            del self.decodes[tenant], self.origins[tenant]


class Reader:
    """Knows the tenant of every live request, and how far each had been computed."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.census = Census(self.tenant)
        self._reached: dict[str, int] = {}

    def meet(self, request: Any) -> str:
        """Remember the tenant of a new request."""
        tenant = self.owners[request.request_id] = tenant_of(request)
        return tenant

    def tenant(self, request: Any) -> str:
        """The tenant of a request that was met; asked often."""
        try:
            return self.owners[request.request_id]
        except KeyError:
            return self.meet(request)

    def keep(self, live: Mapping[str, Any]) -> None:
        """Forget every request that is not live, once they are more than those that are."""
        if live and len(self.owners) < 2 * len(live) + SLACK:
            return
        self.owners = {name: owner for name, owner in self.owners.items() if name in live}
        self._reached = {name: end for name, end in self._reached.items() if name in live}

    def count(self, requests: Iterable[Any]) -> Counter[str]:
        """How many of these requests each tenant has."""
        return Counter(self.tenant(request) for request in requests)

    def lost(self, request: Any) -> None:
        """A running request is about to lose what it has computed."""
        self.census.doubt()
        name, end = request.request_id, request.num_computed_tokens
        self._reached[name] = max(self._reached.get(name, 0), end)

    def ended(self, request: Any, *, by_itself: bool) -> None:
        """A request is through. `by_itself`: its output ended it, so it was running."""
        if by_itself and request.num_computed_tokens and not request.is_prefill_chunk:
            self.census.ended(request)
        else:
            self.census.doubt()

    def read(self, output: Any, scheduler: Any) -> Reading:
        """What a step that was just scheduled gives to each tenant."""
        census, scheduled, running = self.census, output.num_scheduled_tokens, scheduler.running
        base, decoding = census.base, census.decoding
        if len(running) < base or scheduler.num_spec_tokens:
            # Drafts may be rejected when a later step has been scheduled already.
            return self._each(output, scheduler.requests)
        reading, found = Reading(), 0
        new = running[base:]
        for request in (*census.prompts, *new):
            tokens = scheduled.get(request.request_id)
            if tokens:
                found += 1
                self._prompt(request, tokens, reading.prompts)
        idle: list[Any] = []
        if found + decoding > len(scheduled):
            idle = self._idle(scheduled, running[:base])
        if found + decoding - len(idle) != len(scheduled):
            return self._each(output, scheduler.requests)
        census.advance()
        reading.decodes, reading.origins = census.decodes.copy(), census.origins.copy()
        reading.steps = census.steps
        reading.tokens, reading.total = decoding, census.total
        for request in idle:
            reading.take_out(self.tenant(request), request.num_computed_tokens + 1)
            census.passed_over(request)
        census.join(new, len(running))
        return reading

    def _idle(self, scheduled: Mapping[str, int], running: Sequence[Any]) -> list[Any]:
        """Decodes that were passed over, such as those whose last token is under way."""
        prompts = {id(prompt) for prompt in self.census.prompts}
        return [r for r in running if r.request_id not in scheduled and id(r) not in prompts]

    def _each(self, output: Any, requests: Mapping[str, Any]) -> Reading:
        """The same, request by request."""
        self.census.doubt()
        reading = Reading()
        drafts = output.scheduled_spec_decode_tokens
        for name, scheduled in output.num_scheduled_tokens.items():
            request = requests[name]
            # vLLM has moved num_computed_tokens past this step when schedule() returns.
            end = request.num_computed_tokens
            if scheduled - len(drafts.get(name, ())) == 1 and end > request.num_prompt_tokens:
                tenant = self.tenant(request)
                reading.decodes[tenant] = reading.decodes.get(tenant, 0) + scheduled
                reading.origins[tenant] = reading.origins.get(tenant, 0) + end
            else:
                self._prompt(request, scheduled, reading.prompts)
        reading.tokens = sum(reading.decodes.values())
        reading.total = sum(reading.origins.values())
        return reading

    def _prompt(self, request: Any, tokens: int, totals: dict[str, Served]) -> None:
        tenant = self.tenant(request)
        total = totals.get(tenant)
        if total is None:
            total = totals[tenant] = Served()
        end = request.num_computed_tokens
        start, prompt, name = end - tokens, request.num_prompt_tokens, request.request_id
        if name not in self._reached:
            self._reached[name] = start
            total.cached += start
            total.queried += prompt
        reached = self._reached[name]
        total.prefill += tokens
        total.work += prompt_work(start, tokens)
        if start == reached and end <= prompt:  # as it is while nothing is lost
            total.prompt += tokens
            self._reached[name] = end
            return
        total.recomputed += max(min(reached, end) - start, 0)
        total.prompt += max(min(end, prompt) - max(start, reached), 0)
        self._reached[name] = max(reached, end)
