"""Does jobs, two at a time, and says how far it is. What is done is kept at once."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from tenantry_bench.gates.cache import Cache
    from tenantry_bench.gates.jobs import Job

WORKERS: Final = 2
RENEWED: Final = 40
"""Jobs for each worker after which all are replaced, so that memory does not grow. That is not left
to the executor: in Python 3.11 one whose workers have all done their last task waits for ever."""
WATCHED: Final = 1.0
"""Seconds between two looks whether the parent is still there."""
PROGRAM: Final = "bench"


def say(text: str) -> None:
    """Tell the user something that is no result."""
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def _start() -> None:
    """In a worker, before it imports vLLM. An interrupt is for the parent, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    os.environ["OMP_NUM_THREADS"] = "1"
    logging.getLogger("vllm").setLevel(logging.ERROR)
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    """End with the parent, however that ends."""
    while os.getppid() == parent:
        time.sleep(WATCHED)
    os._exit(1)


def _perform(job: Job) -> dict[str, Any]:
    from tenantry_bench.gates import perform  # noqa: PLC0415 - imports vLLM, in the worker only

    return perform.perform(job)


def done(jobs: Iterable[Job], cache: Cache, workers: int = WORKERS) -> dict[Job, dict[str, Any]]:
    """Return the results of the jobs; those that are kept are not done again.

    They are done in the order in which they are given, but those that measure real time come after
    all others, one at a time. A job that fails gives `{"lacking": WHY}`, which is not kept.
    """
    wanted = list(dict.fromkeys(jobs))
    found = {job: kept for job in wanted if (kept := cache.get(job)) is not None}
    left = [job for job in wanted if job not in found]
    say(f"{len(wanted)} runs, {len(found)} of them kept from before")
    progress = Progress(left, workers)
    for alone, at_once in ((False, workers), (True, 1)):
        part = [job for job in left if job.alone is alone]
        for batch in _batches(part, RENEWED * at_once):
            _pool(batch, at_once, cache, found, progress)
    return found


def _batches(jobs: Sequence[Job], size: int) -> Iterator[Sequence[Job]]:
    return (jobs[start : start + size] for start in range(0, len(jobs), size))


def _pool(
    jobs: Sequence[Job],
    workers: int,
    cache: Cache,
    found: dict[Job, dict[str, Any]],
    progress: Progress,
) -> None:
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start)
    running: dict[Future[dict[str, Any]], Job] = {pool.submit(_perform, job): job for job in jobs}
    try:
        while running:
            over, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in over:
                job = running.pop(future)
                found[job] = _taken(future, job, cache)
                progress.after(job)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _taken(future: Future[dict[str, Any]], job: Job, cache: Cache) -> dict[str, Any]:
    error = future.exception()
    if error is not None:
        say(f"{job.title}: {type(error).__name__}: {error}")
        return {"lacking": f"failed: {type(error).__name__}"}
    result = future.result()
    if "lacking" not in result:
        cache.put(job, result)
    return result


class Progress:
    """How much is done, and how long the rest takes if it goes on like this."""

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        self._total = sum(job.effort for job in jobs)
        self._count = len(jobs)
        self._done = 0
        self._effort = 0.0
        self._workers = workers
        self._began = time.monotonic()

    def after(self, job: Job) -> None:
        """A job is over."""
        self._done += 1
        self._effort += job.effort
        took = time.monotonic() - self._began
        rest = took * (self._total - self._effort) / self._effort
        say(
            f"{self._done} of {self._count}, {took / 60:.1f} min, about {rest / 60:.1f} min more: "
            f"{job.title}"
        )
