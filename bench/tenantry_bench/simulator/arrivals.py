"""The requests of a scenario, from a seed.

Times and lengths come from streams of random numbers of their own, each seeded by the seed, the
scenario and the tenant. So a tenant sends the same on every arm, whoever else is there. The lengths
of the n-th request of a closed loop do not depend on when it is sent either.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING

from tenantry_bench.simulator.scenario import LIMIT, Length, Recorded, Scenario, Shape, Tenant

if TYPE_CHECKING:
    from collections.abc import Iterator


def stream(seed: int, scenario: str, purpose: str, tenant: str = "") -> random.Random:
    """Random numbers that are the same in every process."""
    return random.Random(f"{seed}/{scenario}/{purpose}/{tenant}")  # noqa: S311 - no secret


def draw(length: Length, numbers: random.Random) -> int:
    """Return one length in tokens."""
    if length.high:
        return numbers.randint(length.low, length.high)
    variance = math.log1p(length.cv**2)
    mu = math.log(length.mean) - variance / 2
    tokens = round(numbers.lognormvariate(mu, math.sqrt(variance)))
    return min(max(tokens, length.low), length.most)


class Feed:
    """What arrives, in order of time: open loops and traces by plan, closed loops as they are told
    that a request has ended.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._until = scenario.duration
        self._queue: list[tuple[float, int, Recorded]] = []
        self._order = count()
        self._loops: dict[str, Iterator[Recorded]] = {}
        for tenant in scenario.tenants:
            self._begin(tenant, scenario.drawn, seed)
        for each in scenario.trace:
            self._push(each)

    def next_at(self) -> float:
        """When the next request arrives; infinity where none is planned."""
        return self._queue[0][0] if self._queue else math.inf

    def due(self, now: float) -> Iterator[Recorded]:
        """Take what has arrived by now."""
        while self._queue and self._queue[0][0] <= now:
            yield heapq.heappop(self._queue)[2]

    def ended(self, tenant: str, now: float) -> None:
        """A request of the tenant has ended; in a closed loop the next one comes at once."""
        loop = self._loops.get(tenant)
        body = next(loop, None) if loop is not None and now < self._until else None
        if body is not None:
            self._push(_at(body, now))

    def _begin(self, tenant: Tenant, scenario: str, seed: int) -> None:
        bodies = _bodies(tenant, stream(seed, scenario, "lengths", tenant.name))
        if tenant.in_flight:
            self._loops[tenant.name] = bodies
        for body in islice(bodies, tenant.in_flight + tenant.burst):
            self._push(_at(body, tenant.start))
        if tenant.rate:
            times = stream(seed, scenario, "arrivals", tenant.name)
            for at in _times(tenant, times, self._until):
                self._push(_at(next(bodies), at))

    def _push(self, each: Recorded) -> None:
        if each.t < self._until:
            heapq.heappush(self._queue, (each.t, next(self._order), each))


def _times(tenant: Tenant, numbers: random.Random, until: float) -> Iterator[float]:
    """Arrival times: gaps of mean 1 / rate, exponential, or gamma for another cv than 1."""
    at = tenant.start
    form = 1 / tenant.cv**2
    while at < until:
        if tenant.cv == 1:
            at += numbers.expovariate(tenant.rate)
        else:
            at += numbers.gammavariate(form, 1 / (form * tenant.rate))
        yield at


def _bodies(tenant: Tenant, numbers: random.Random) -> Iterator[Recorded]:
    parts = [shape.part for shape in tenant.shapes]
    for number in range(tenant.count) if tenant.count else count():
        kind = _kind(tenant, parts, numbers)
        name = f"{tenant.name}-{number}"
        if tenant.connections > 1:
            name = f"{tenant.name}-c{number % tenant.connections}-{number}"
        if kind.pairs:
            prompt, output = numbers.choice(kind.pairs)
        else:
            prompt, output = draw(kind.prompt, numbers), draw(kind.output, numbers)
        yield Recorded(
            name, tenant.name, 0.0, prompt, output, LIMIT, tenant.priority, tenant.shared
        )


def _kind(tenant: Tenant, parts: list[float], numbers: random.Random) -> Shape:
    if len(parts) == 1:
        return tenant.shapes[0]
    return numbers.choices(tenant.shapes, parts)[0]


def _at(body: Recorded, t: float) -> Recorded:
    return replace(body, t=t)
