"""The process: settings, one lease, kopf's watches and our loops, and an orderly end."""

import argparse
import asyncio
import contextlib
import importlib.metadata
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
import kopf
from aiohttp import web
from prometheus_client import CollectorRegistry

from tenantry_operator import handlers, lease, metrics
from tenantry_operator.cluster import ApiError, Cluster
from tenantry_operator.engines import Engines
from tenantry_operator.lease import Candidate, LeaseLostError
from tenantry_operator.reconcile import Reconciler
from tenantry_operator.settings import Settings, SettingsError, load
from tenantry_operator.worker import Worker
from tenantry_operator.workqueue import WorkQueue

log = logging.getLogger("tenantry_operator")

OK, BAD_INPUT, FAILED, INTERRUPTED = 0, 2, 3, 130
RETRY_SECONDS = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop. Returns the exit status."""
    argparse.ArgumentParser(
        prog="tenantry-operator",
        description="Turns TenantServingPolicies into engines. Settings come from the environment: "
        "docs/reference/operator.md.",
    ).parse_args(argv)
    try:
        settings = load(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"tenantry-operator: {error}\n")
        return BAD_INPUT
    logging.basicConfig(
        level=settings.log_level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    handlers.quiet()
    try:
        return asyncio.run(_run(settings))
    except (ApiError, LeaseLostError, OSError) as error:
        sys.stderr.write(f"tenantry-operator: {error}\n")
        return FAILED
    except Exception:  # the outermost loop: the kubelet starts us again
        log.exception("the operator has failed")
        return FAILED


class Stop(asyncio.Event):
    """Set by the signal that ends the process; `status` is then its exit status."""

    status = OK

    def take(self, number: signal.Signals) -> None:
        """A signal has come."""
        self.status = INTERRUPTED if number is signal.SIGINT else OK
        self.set()


def _utc() -> datetime:
    return datetime.now(UTC)


async def _run(settings: Settings) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    _stop_by_signal(stop)
    async with await Cluster.connect() as cluster, aiohttp.ClientSession() as session:
        worker = _worker(cluster, Engines(session, loop.time), settings)
        who = Candidate(settings.namespace, settings.identity)
        async with _http(worker, settings.port):
            if not await _unless(stop, _lead(cluster, who)):
                return stop.status
            try:
                await _operate(worker, settings, lease.hold(cluster, who, _utc), stop)
            finally:
                await lease.release(cluster, who)
    return stop.status


def _stop_by_signal(stop: Stop) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.take, number)


def _worker(cluster: Cluster, engines: Engines, settings: Settings) -> Worker:
    clock = asyncio.get_running_loop().time
    counted = metrics.OperatorMetrics(CollectorRegistry(), importlib.metadata.version("tenantry"))
    reconciler = Reconciler(cluster, engines, settings, _utc)
    return Worker(WorkQueue(clock), reconciler, counted, clock)


@contextlib.asynccontextmanager
async def _http(worker: Worker, port: int) -> AsyncIterator[None]:
    """Health and metrics, also while another operator leads."""
    app = metrics.application(worker.metrics, worker.trouble)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()


async def _lead(cluster: Cluster, who: Candidate) -> None:
    """Wait for the API server, for the resource, and for the lease."""
    await _until(cluster.serves_policies, "the API server does not know TenantServingPolicy yet")
    await lease.acquire(cluster, who, _utc)


async def _until(asked: Callable[[], Coroutine[Any, Any, bool]], waiting: str) -> None:
    told = ""
    while True:
        try:
            if await asked():
                return
            text = waiting
        except ApiError as error:
            if error.status:
                raise
            text = error.message
        if text != told:
            log.info("waiting: %s", text)
            told = text
        await asyncio.sleep(RETRY_SECONDS)


async def _unless(stop: Stop, work: Coroutine[Any, Any, None]) -> bool:
    """Whether `work` ended before we were told to stop."""
    tasks = [asyncio.create_task(work), asyncio.create_task(stop.wait())]
    try:
        await _either(*tasks)
        if tasks[0].done():
            await tasks[0]
        return tasks[0].done()
    finally:
        await _cancel(tasks)


async def _operate(
    worker: Worker, settings: Settings, held: Coroutine[Any, Any, None], stop: Stop
) -> None:
    """Everything at once until we are told to stop; each of the others ends only by failing."""
    loops: list[Coroutine[Any, Any, Any]] = [
        stop.wait(),
        held,
        *(worker.work() for _ in range(settings.workers)),
        worker.scrape(worker.reconciler.engines, settings.scrape_seconds),
        worker.resync(settings.resync_seconds),
        _kopf(worker, stop),
    ]
    tasks = [asyncio.create_task(one) for one in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
    finally:
        await _cancel(tasks)


async def _kopf(worker: Worker, stop: Stop) -> None:
    """kopf's watches. Its answer to a signal waits 5 s for others' tasks, so ours replaces it."""
    started = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=handlers.registry(worker.queue.add),
            settings=handlers.settings(),
            clusterwide=True,
            standalone=True,
            ready_flag=started,
        )
    )
    try:
        await _either(operator, asyncio.create_task(started.wait()))
        _stop_by_signal(stop)
        await operator
    finally:
        await _cancel([operator])


async def _either(*tasks: asyncio.Task[Any]) -> None:
    """Until one of them has ended."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    sys.exit(main())
