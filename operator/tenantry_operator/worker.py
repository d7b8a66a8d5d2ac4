"""The loops around a reconcile: work off the queue, read the engines, look again now and then."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from tenantry_operator.cluster import ApiError
from tenantry_operator.engines import Engines
from tenantry_operator.metrics import OperatorMetrics
from tenantry_operator.reconcile import Outcome, Reconciler
from tenantry_operator.workqueue import Key, WorkQueue

log = logging.getLogger(__name__)

STUCK_SECONDS = 300.0


@dataclass
class Worker:
    """Runs reconciles; knows which policies there are and whether each is Ready."""

    queue: WorkQueue
    reconciler: Reconciler
    metrics: OperatorMetrics
    clock: Callable[[], float]
    _ready: dict[Key, bool] = field(default_factory=dict)
    _running: dict[Key, float] = field(default_factory=dict)

    async def work(self) -> None:
        """Reconcile what the queue hands out, for ever."""
        while True:
            await self._one(await self.queue.get())

    async def resync(self, every: float) -> None:
        """Ask for every known policy each `every` seconds, in case an event was lost."""
        while True:
            await asyncio.sleep(every)
            for key in self._ready:
                self.queue.add(key)

    async def scrape(self, engines: Engines, every: float) -> None:
        """Read the engines each `every` seconds and ask for the policies where one changed."""
        while True:
            for key in await engines.scrape():
                self.queue.add(key)
            await asyncio.sleep(every)

    def trouble(self) -> str:
        """What is wrong with this process, empty where nothing is: for the health probe."""
        now = self.clock()
        for key, start in self._running.items():
            if now - start > STUCK_SECONDS:
                return f"the reconcile of {key} has been running for {now - start:.0f} s"
        return ""

    async def _one(self, key: Key) -> None:
        start = self._running[key] = self.clock()
        try:
            outcome = await self.reconciler.reconcile(key)
        except ApiError as error:
            self._failed(key, error.message)
            outcome = Outcome("error")
        except Exception as error:  # the loop must outlive every policy
            log.exception("reconcile of %s", key)
            self._failed(key, repr(error))
            outcome = Outcome("error")
        else:
            self._done(key, outcome)
        finally:
            del self._running[key]
        self.metrics.reconciled(outcome.result, self.clock() - start)
        self.metrics.policies(self._ready.values())

    def _failed(self, key: Key, why: str) -> None:
        delay = self.queue.failed(key)
        log.warning("reconcile of %s failed, again in %.0f s: %s", key, delay, why)

    def _done(self, key: Key, outcome: Outcome) -> None:
        if outcome.ready is None:
            self._ready.pop(key, None)
        else:
            self._ready[key] = outcome.ready
        self.queue.done(key)
        if outcome.again is not None:
            self.queue.add(key, outcome.again)
