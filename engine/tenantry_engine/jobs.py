"""What a waiting request is to the orderings: its size and its predicted cost, and so its key.

A key is made when a request enters the queue, from what is known then. Predicted GPU seconds are a
request's part of the steps it will be in: its prompt in a chunk of ordinary size, its output among
ordinary company, or among as few as a KV cache has room for when all are of its size. They are
asked of the step model once a second and not for each request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tenantry_core.lengths import Lengths
from tenantry_core.ordering import PREDICTED, Job, Key, Order
from tenantry_core.stepmodel import Load, StepTimes, prompt_work

CHUNK: Final = 256
COMPANY: Final = 32
"""Prompt tokens and decodes of an ordinary step."""
LONG: Final = 1024
"""Tokens of context at which the price of context is asked."""
STALE: Final = 1.25
"""Prices that have changed by this factor make keys anew."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds for a prompt token, a unit of its attention work, an output token, a token of the
    context that it attends to; and of what all in a step pay together: each one's part among
    ordinary company, and that of each token held where the cache is what keeps others out."""

    prompt: float
    work: float
    output: float
    context: float
    shared: float
    held: float

    def seconds(self, prompt: int, context: int, length: float) -> float:
        """What is left of a job with so many prompt tokens to compute, so many of context then, and
        so many of output to come."""
        middle = context + length / 2
        shared = max(self.shared, self.held * middle)
        return (
            self.prompt * prompt
            + self.work * prompt_work(context - prompt, prompt)
            + length * (self.output + self.context * middle + shared)
        )


def prices(model: StepTimes, room: int) -> Prices:
    """What the model says of an ordinary step; `room` is the KV cache in tokens."""
    least = model.predict(Load(decodes=1))
    alone = model.predict(Load(decodes=COMPANY))
    long = model.predict(Load(decodes=COMPANY, context=COMPANY * LONG))
    chunk = model.predict(Load(prefill=CHUNK))
    worked = model.predict(Load(prefill=CHUNK, work=float(CHUNK * LONG)))
    return Prices(
        prompt=chunk / CHUNK,
        work=max(worked - chunk, 0.0) / (CHUNK * LONG),
        output=max(alone - least, 0.0) / COMPANY,
        context=max(long - alone, 0.0) / (COMPANY * LONG),
        shared=least / COMPANY,
        held=model.predict(Load(prefill=CHUNK, decodes=COMPANY)) / max(room, 1),
    )


class Jobs:
    """Makes jobs of requests, and their keys under the ordering in force.

    `owner` names a request's tenant, `weight` the tenant's weight. The `scheduler` is asked how
    many tokens of a request need not be computed, and how many the KV cache holds.
    """

    def __init__(
        self,
        lengths: Lengths,
        model: StepTimes,
        owner: Callable[[Any], str],
        scheduler: Any,
    ) -> None:
        self.order: Order | None = None
        self.weight: Callable[[str], float] = lambda _: 1.0
        self._lengths = lengths
        self._model = model
        self._owner = owner
        self._cached = scheduler.cached_tokens
        self._room = int(scheduler.blocks() * scheduler.block_size)
        self._prices = prices(model, self._room)
        self._asked: dict[str, int] = {}
        self._ends: dict[str, float] = {}

    def key(self, request: Any) -> Key:
        """The key of a request that enters the queue, or is there and gets another."""
        if self.order is None:
            raise ValueError("there is no ordering to make keys by")
        self.forget(request.request_id)  # a key made anew is made of what is known now
        return self.order(self.job(request))

    def arrived(self, request: Any) -> None:
        """A request is new."""
        if self.order is not None and self.order.learns:
            self.order.arrived(self.job(request))

    def job(self, request: Any) -> Job:
        """The request as the orderings see it. vLLM's priority is smaller for the more important;
        no source of deadlines reaches the engine."""
        tenant, context = self._owner(request), request.num_tokens
        length = self.remaining(request)
        prompt = max(context - self._cached(request), 1)
        return Job(
            request=request.request_id,
            arrival=request.arrival_time,
            tenant=tenant,
            priority=-request.priority,
            weight=self.weight(tenant),
            prompt=prompt,
            context=context,
            length=length,
            seconds=self._prices.seconds(prompt, context, length),
            preempted=request.num_preemptions,
        )

    def remaining(self, request: Any) -> float:
        """Predicted output tokens still to come. Asked anew only once a prediction has come true
        and the request goes on."""
        done = int(request.num_output_tokens)
        end = self._ends.get(request.request_id)
        if end is None or end <= done:
            prompt, limit = request.num_prompt_tokens, request.max_tokens
            tenant = self._owner(request)
            left = self._lengths.expect(tenant, prompt, done, limit, request.request_id)
            end = self._ends[request.request_id] = done + left
        return end - done

    def finished(self, request: Any, tenant: str) -> bool:
        """A request ended by itself: learn from it. True when twice as much is known of the tenant
        as when its keys were made."""
        self._lengths.finished(tenant, request.num_prompt_tokens, request.num_output_tokens)
        known = self._lengths.evidence(tenant)
        if known < 2 * self._asked.get(tenant, 0):
            return False
        self._asked[tenant] = max(known, 1)
        return self.order is not None and self.order.name in PREDICTED

    def forget(self, request: str) -> None:
        """What was predicted for a request is of no use any more: it is over, or asked anew."""
        self._ends.pop(request, None)

    def refresh(self) -> bool:
        """Ask for prices; whether they have changed so much that keys are to be made anew."""
        now, before = prices(self._model, self._room), self._prices
        pairs = ((now.prompt, before.prompt), (now.shared, before.shared))
        if all(before / STALE <= new <= before * STALE for new, before in pairs):
            return False
        self._prices = now
        return self.order is not None and self.order.name in PREDICTED
