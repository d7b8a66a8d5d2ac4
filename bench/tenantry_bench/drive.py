"""Sending a plan in time, and deciding when the run is over.

One process, one event loop. The clock of a request of the open loop starts at its planned time:
when the server stalls, later requests are still sent on time, and what the generator itself was
late is in the latency as well as in a measure of its own.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tenantry_bench.client import Client, Outcome, Record
from tenantry_bench.load import MAX_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from tenantry_bench.load import TenantLoad
    from tenantry_bench.plan import Plan, Request

    _Task = asyncio.Task[None]
    _Part = Coroutine[None, None, None]

BEAT = 0.05
"""Seconds between the timed wake-ups that sample the generator's own lateness between sends."""

PAUSE = 0.25
MAX_PAUSE = 5.0
"""A connection of the closed loop waits this long after a refusal or failure (or Retry-After)."""

LEAD = 0.05
"""Seconds between building the tasks and the start, so that the first sends are not late."""

PROGRESS = 5.0
NEVER = 2 * MAX_SECONDS


@dataclass
class Run:
    """What one run has done so far; `lateness` holds every timed wake-up's delay in seconds."""

    plan: Plan
    records: list[Record] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    end: float = 0.0

    @property
    def window(self) -> tuple[float, float]:
        """The measured part, in seconds since the start."""
        return (self.plan.load.warmup, self.end)


@dataclass
class _Driver:
    run: Run
    client: Client
    origin: float

    def now(self) -> float:
        """Seconds since the start. An event loop's own clock may tick in milliseconds only."""
        return time.monotonic() - self.origin

    async def until(self, planned: float) -> None:
        """Sleep until a planned time and note how much later it is."""
        while (wait := planned - self.now()) > 0:  # noqa: ASYNC110 - time, not an event
            # A loop whose clock ticks in milliseconds wakes up to one of them too early.
            await asyncio.sleep(wait)
        if planned >= self.run.plan.load.warmup:
            self.run.lateness.append(max(0.0, self.now() - planned))

    async def heartbeat(self) -> None:
        planned = 0.0
        while True:
            planned += BEAT
            await self.until(planned)

    async def open_loop(self, requests: Iterator[Request]) -> None:
        async with asyncio.TaskGroup() as group:
            for request in requests:
                assert request.planned is not None  # noqa: S101 - an open loop plans every one
                await self.until(request.planned)
                group.create_task(self.one(request, request.planned))

    async def closed_loop(self, tenant: TenantLoad, requests: Iterator[Request]) -> None:
        assert tenant.connections is not None  # noqa: S101 - a closed loop has them
        await asyncio.sleep(max(0.0, tenant.start - self.now()))
        left = _Countdown(tenant.requests, self.run.plan.load.warmup)
        async with asyncio.TaskGroup() as group:
            for _ in range(tenant.connections):
                group.create_task(self.connection(requests, left))

    async def connection(self, requests: Iterator[Request], left: _Countdown) -> None:
        while left.take(self.now()):
            record = await self.one(next(requests), None)
            if record.outcome in (Outcome.REFUSED, Outcome.FAILED):
                await asyncio.sleep(min(record.retry_after or PAUSE, MAX_PAUSE))

    async def one(self, request: Request, planned: float | None) -> Record:
        sent = self.now()
        record = Record(request, begun=sent if planned is None else planned, sent=sent)
        self.run.records.append(record)
        if request.cancel_at is None:
            await self.client.send(record, self.now)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(request.cancel_at - self.now()):
                    await self.client.send(record, self.now)
        return record

    def parts(self) -> tuple[list[_Part], list[_Part]]:
        """Return those that the run waits for, and those that are cut off after them."""
        plan = self.run.plan
        waited: list[_Part] = []
        others: list[_Part] = []
        if plan.load.trace:
            waited.append(self.open_loop(plan.recorded()))
        for tenant in plan.load.tenants:
            if tenant.loop == "open":
                part = self.open_loop(plan.open_loop(tenant))
            else:
                part = self.closed_loop(tenant, plan.closed_loop(tenant))
            (others if tenant.requests is None else waited).append(part)
        return waited, others


@dataclass
class _Countdown:
    """How many measured requests a closed loop has still to send; None means no end."""

    left: int | None
    warmup: float

    def take(self, now: float) -> bool:
        if self.left is None or now < self.warmup:
            return True
        self.left -= 1
        return self.left >= 0


async def drive(plan: Plan, client: Client, report: Callable[[Run, float], None] | None) -> Run:
    """Carry out `plan` and return what happened.

    The run ends when the tenants with `requests` have theirs, or at the load's duration; whatever
    is on its way then is cut off and counts as unfinished. `report` is called every few seconds.
    """
    loop = asyncio.get_running_loop()
    run = Run(plan)
    driver = _Driver(run, client, time.monotonic() + LEAD)
    duration = plan.load.duration
    waited, others = driver.parts()
    tasks = [loop.create_task(part) for part in waited]
    rest = [loop.create_task(part) for part in [*others, driver.heartbeat()]]
    timer = loop.create_task(asyncio.sleep(NEVER if duration is None else duration + LEAD))
    if report is not None:
        rest.append(loop.create_task(_progress(driver, report)))
    try:
        await _until_done(tasks, rest, timer)
        run.end = driver.now() if duration is None else min(driver.now(), duration)
    finally:
        await _cut_off([*tasks, *rest, timer])
    return run


async def _until_done(tasks: list[_Task], rest: list[_Task], timer: _Task) -> None:
    """Wait for all `tasks` or for `timer`; a part that dies ends the run with its error."""
    running = {*tasks, *rest, timer}
    while not timer.done() and not (tasks and all(task.done() for task in tasks)):
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _cut_off(tasks: list[_Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _progress(driver: _Driver, report: Callable[[Run, float], None]) -> None:
    while True:
        await asyncio.sleep(PROGRESS)
        report(driver.run, driver.now())
