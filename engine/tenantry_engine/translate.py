"""What vLLM's objects say, in the words of our decisions.

Only attributes of requests and of scheduler outputs are read here; nothing is changed. A request
is a `vllm.v1.request.Request`, an output a `SchedulerOutput` or the `EngineCoreOutputs` by
client.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import names
from tenantry_core.stepmodel import Load


@dataclass(slots=True)
class Served:
    """What one tenant gets in one step, in tokens; filled while the step is read.

    `prefill`, `decodes` and `context` are its load on the engine. `prompt` is prompt tokens done
    for the first time, `cached` those that the prefix cache had, `queried` those looked up in it,
    `recomputed` what had been done before a preemption.
    """

    prefill: int = 0
    decodes: int = 0
    context: int = 0
    prompt: int = 0
    cached: int = 0
    queried: int = 0
    recomputed: int = 0

    @property
    def load(self) -> Load:
        """The load on the engine."""
        return Load(self.prefill, self.decodes, self.context)


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


def generated(outputs: Mapping[int, Any], tenants: Mapping[str, str]) -> Counter[str]:
    """New tokens by tenant; `tenants` by request id."""
    counts: Counter[str] = Counter()
    for each in outputs.values():
        for output in each.outputs:
            if output.new_token_ids:
                tenant = tenants.get(output.request_id, names.DEFAULT_TENANT)
                counts[tenant] += len(output.new_token_ids)
    return counts


class Reader:
    """Knows the tenant of every live request, and how far each had been computed."""

    def __init__(self) -> None:
        self.tenants: dict[str, str] = {}
        self._reached: dict[str, int] = {}

    def meet(self, request: Any) -> None:
        """Remember the tenant of a new request."""
        self.tenants[request.request_id] = tenant_of(request)

    def tenant(self, request: Any) -> str:
        """The tenant of a request that was met; asked often."""
        known = self.tenants.get(request.request_id)
        if known is None:
            self.meet(request)
            known = self.tenants[request.request_id]
        return known

    def keep(self, live: Mapping[str, Any]) -> None:
        """Forget every request that is not live."""
        for request in [each for each in self.tenants if each not in live]:
            del self.tenants[request]
            self._reached.pop(request, None)

    def count(self, requests: Iterable[Any]) -> Counter[str]:
        """How many of these requests each tenant has."""
        return Counter(self.tenant(request) for request in requests)

    def served(self, output: Any, requests: Mapping[str, Any]) -> dict[str, Served]:
        """What a step that was just scheduled gives to each tenant."""
        totals: dict[str, Served] = {}
        drafts = output.scheduled_spec_decode_tokens
        for name, scheduled in output.num_scheduled_tokens.items():
            request = requests[name]
            total = totals.setdefault(self.tenant(request), Served())
            # vLLM has moved num_computed_tokens past this step when schedule() returns.
            end = request.num_computed_tokens
            total.context += end
            if scheduled - len(drafts.get(name, ())) == 1 and end > request.num_prompt_tokens:
                total.decodes += 1
                self._reached[name] = end
            else:
                self._prefilled(request, end - scheduled, end, total)
        return totals

    def _prefilled(self, request: Any, start: int, end: int, total: Served) -> None:
        prompt = request.num_prompt_tokens
        if request.request_id not in self._reached:
            self._reached[request.request_id] = start
            total.cached += start
            total.queried += prompt
        reached = self._reached[request.request_id]
        total.prefill += end - start
        total.recomputed += max(min(reached, end) - start, 0)
        total.prompt += max(min(end, prompt) - max(start, reached), 0)
        self._reached[request.request_id] = max(reached, end)
