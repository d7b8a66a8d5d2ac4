"""One scheduler under a virtual clock: what arrives goes in, steps take what the cost model says.

The scheduler is vLLM's class; it never sees a true length, nor the cost model. A request carries
its limit and ends when the answer holds the stop token. What a step takes is read from what was
scheduled. The time that the scheduler itself takes is not counted.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenantry_bench.simulator.arrivals import stream
from tenantry_bench.simulator.record import Line, Log, Record
from tenantry_engine import offline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.simulator.arrivals import Feed
    from tenantry_bench.simulator.profiles import Costs

NOISE: Final = 0.05
"""Coefficient of variation of a step's time around what the cost model says."""
IDLE: Final = (0.001, 0.1)
"""A scheduler that schedules nothing is asked again after so many seconds, at first and at most."""
SAMPLED: Final = 0.5
"""Seconds between two looks at the KV blocks held."""


class Clock:
    """Virtual seconds since the start of a run."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Step:
    """A step under way: who samples a token in it (None: no token), and what tenants get of it."""

    output: Any
    names: list[str]
    sampling: list[Record | None]
    seconds: float
    gpu: list[float]
    prompt: list[int]


@dataclass(frozen=True)
class World:
    """What a run consists of. `admit` gives the tenant's name for the engine, None refuses it."""

    feed: Feed
    costs: Costs
    seed: int
    name: str
    depth: int = 1
    block: int = 16
    admit: Callable[[str], str | None] = str
    noise: float = NOISE


class Drive:
    """Runs a scheduler through a world."""

    def __init__(self, scheduler: Any, clock: Clock, world: World, log: Log) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._world = world
        self.log = log
        self._indices = {name: index for index, name in enumerate(log.tenants)}
        self._flying: deque[Step] = deque()
        self._free_at = 0.0
        self._waiting = [0] * len(log.tenants)
        self._numbers = stream(world.seed, world.name, "noise")
        self._sigma = math.sqrt(math.log1p(world.noise**2))
        self._idle = IDLE[0]
        self._sampled = 0.0
        self._leaving: list[tuple[float, str]] = []

    def run(self, until: float, *, drain: bool, progress: Callable[[float], None]) -> Log:
        """Run until the time is over or, with `drain`, nothing is left; the time then bounds it."""
        clock = self._clock
        while clock.now < until:
            self._arrive()
            if not self._flying and not self._scheduler.has_unfinished_requests():
                if self._scheduler.has_requests():  # some have ended that nobody was told of
                    self._land(self._schedule())
                at = self._world.feed.next_at()
                if at >= until:
                    break
                clock.now = at
                continue
            self._turn()
            progress(clock.now)
        self.log.end = clock.now if drain else until
        return self.log

    def _arrive(self) -> None:
        for body in self._world.feed.due(self._clock.now):
            record = Record(body, self._indices[body.tenant])
            self.log.records[body.name] = record
            tenant = self._world.admit(body.tenant)
            if tenant is None or body.refused:
                self._refuse(record)
                continue
            self._waiting[record.tenant] += 1
            prompt = offline.Prompt(body.prompt, tenant, body.shared, self._world.block)
            record.request = offline.request(
                body.name,
                prompt,
                body.limit,
                tenant=tenant,
                arrival=body.t,
                priority=-body.priority,
            )
            self._scheduler.add_request(record.request)
            if body.cancel_at is not None:
                self._leaving.append((body.cancel_at, body.name))
        if self._leaving:
            self._leave()

    def _leave(self) -> None:
        now = self._clock.now
        for at, name in [each for each in self._leaving if each[0] <= now]:
            self._leaving.remove((at, name))
            record = self.log.records[name]
            if record.ended is None:
                self._scheduler.finish_requests(name, offline.ABORTED)
                self._close(record)

    def _turn(self) -> None:
        """Schedule a step, and take back what is due."""
        step = self._schedule()
        if step.names:
            self._idle = IDLE[0]
            self._flying.append(step)
            if len(self._flying) >= self._world.depth:
                self._land(self._flying.popleft())
        elif self._flying:
            self._land(self._flying.popleft())
        else:
            self._land(step)
            self._wait()

    def _wait(self) -> None:
        """Nothing can be scheduled though requests wait: ask again soon, and ever more seldom."""
        self.log.idle_turns += 1
        self._clock.now = min(
            self._clock.now + self._idle, max(self._world.feed.next_at(), self._clock.now)
        )
        self._idle = min(2 * self._idle, IDLE[1])

    def _schedule(self) -> Step:
        output = self._scheduler.schedule()
        tenants = len(self.log.tenants)
        tokens, sequences, context = [0] * tenants, [0] * tenants, [0] * tenants
        attention, prompt = [0.0] * tenants, [0] * tenants
        requests, records = self._scheduler.requests, self.log.records
        sampling: list[Record | None] = []
        decodes = 0
        for name, count in output.num_scheduled_tokens.items():
            record = records[name]
            end = requests[name].num_computed_tokens
            tenant = record.tenant
            tokens[tenant] += count
            sequences[tenant] += 1
            if count == 1 and end == record.at + 1 and end > record.prompt:
                decodes += 1
                context[tenant] += end
                record.at = end
                sampling.append(record)
            else:
                attention[tenant] += count * (end - count / 2)
                prompt[tenant] += self._chunk(record, end - count, end)
                sampling.append(None if requests[name].is_prefill_chunk else record)
        mixed = 0 < decodes < len(sampling)
        gpu = self._divide(tokens, sequences, context, attention, mixed=mixed)
        names = list(output.num_scheduled_tokens)
        return Step(output, names, sampling, sum(gpu), gpu, prompt)

    def _chunk(self, record: Record, start: int, end: int) -> int:
        """Book prompt tokens, or what is done again; return the tokens done for the first time."""
        now, reached = self._clock.now, max(record.reached, record.at)
        if record.first is None:
            record.first = now
            self._waiting[record.tenant] -= 1
            reached = start
            if start:
                self.log.cached.append((now, record.tenant, start))
        elif start < record.at:
            self.log.preemptions.append((now, record.tenant))
        again = min(reached, end) - start
        if again > 0:
            self.log.recomputed.append((now, record.tenant, again))
        record.at, record.reached = end, max(reached, end)
        return max(min(end, record.prompt) - max(start, reached), 0)

    def _divide(
        self,
        tokens: list[int],
        sequences: list[int],
        context: list[int],
        attention: list[float],
        *,
        mixed: bool,
    ) -> list[float]:
        """The true seconds of the step by tenant: the cost model's parts times one noise."""
        total = sum(tokens)
        if not total:
            return [0.0] * len(tokens)
        costs = self._world.costs
        noise = self._numbers.lognormvariate(-(self._sigma**2) / 2, self._sigma)
        a = noise * costs.dense(total, mixed=mixed) / total
        b, c, d = noise * costs.sequence, noise * costs.context, noise * costs.attention
        return [
            a * n + b * s + c * x + d * w
            for n, s, x, w in zip(tokens, sequences, context, attention, strict=True)
        ]

    def _land(self, step: Step) -> None:
        """A step is over: its tokens are there."""
        clock = self._clock
        if step.names:
            self._free_at = max(self._free_at, clock.now) + step.seconds
            clock.now = self._free_at
        now = clock.now
        output = [0] * len(self.log.tenants)
        tokens: list[list[int]] = []
        for record in step.sampling:
            if record is None or record.ended is not None:
                tokens.append([])
                continue
            record.times.append(now)
            output[record.tenant] += 1
            last = record.stops and len(record.times) == record.length
            tokens.append([offline.STOP if last else offline.WORD])
        answer = offline.answer(step.names, tokens)
        outputs = self._scheduler.update_from_output(step.output, answer)
        self._finish(outputs)
        if step.names:
            waits = [count > 0 for count in self._waiting]
            self.log.lines.append(Line(now, step.gpu, step.prompt, output, waits))
            if now - self._sampled >= SAMPLED:
                self._count_blocks(now)

    def _finish(self, outputs: Any) -> None:
        for client in outputs.values():
            for each in client.outputs:
                record = self.log.records[each.request_id]
                if each.finish_reason is not None and record.ended is None:
                    record.refused = not record.times
                    self._close(record)

    def _refuse(self, record: Record) -> None:
        record.refused = True
        record.ended = self._clock.now
        self._world.feed.ended(record.body.tenant, self._clock.now)

    def _close(self, record: Record) -> None:
        """The request has ended, whichever way."""
        record.ended = self._clock.now
        if record.first is None:
            self._waiting[record.tenant] -= 1
        self._world.feed.ended(record.body.tenant, self._clock.now)

    def _count_blocks(self, now: float) -> None:
        self._sampled = now
        held = [0] * len(self.log.tenants)
        records, block = self.log.records, self._world.block
        for request in self._scheduler.running:
            held[records[request.request_id].tenant] += -(-request.num_computed_tokens // block)
        self.log.blocks.append((now, held))
