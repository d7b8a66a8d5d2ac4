"""Many runs, in several processes: for whoever judges simulations by program.

A task is a scenario, an arm, a seed and options; what comes back holds plain numbers and can be
kept in a file. A window other than the scenario's is a scenario with another window: arrivals do
not depend on it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenantry_bench.simulator.contest import DEDICATED, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tenantry_bench.simulator.measure import Outcome
    from tenantry_bench.simulator.options import Options
    from tenantry_bench.simulator.scenario import Scenario


@dataclass(frozen=True)
class Task:
    """One run. With `lateness` the `dedicated` arm is run as well, to compare tokens with."""

    scenario: Scenario
    arm: str
    seed: int
    options: Options
    lateness: bool = False


@dataclass(frozen=True)
class Done:
    """A task, its outcome, and the CPU seconds that the arm itself took."""

    task: Task
    outcome: Outcome
    cpu_seconds: float

    @property
    def speed(self) -> float:
        """Simulated seconds in a second of CPU time."""
        return self.outcome.end / self.cpu_seconds


def quiet() -> None:
    """Silence vLLM, whose log lines are about the machine that it runs on. Before it is imported.

    The warnings that Tenantry's own scheduler logs about single requests go with them: rows count
    what they say.
    """
    os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
    logging.getLogger("vllm").setLevel(logging.CRITICAL)


def perform(task: Task) -> Done:
    """Run a task here. Raises BadInputError for an arm that there is not."""
    quiet()
    from tenantry_bench.simulator import measure, runner  # noqa: PLC0415 - import vLLM

    check(task.arm)
    dedicated = None
    if task.lateness and task.arm != DEDICATED:
        alone = runner.run(task.scenario, DEDICATED, task.seed, task.options)
        dedicated = measure.outcome(alone)
    began = time.process_time()
    run = runner.run(task.scenario, task.arm, task.seed, task.options)
    spent = time.process_time() - began
    return Done(task, measure.outcome(run, dedicated), spent)


def perform_all(tasks: Sequence[Task], workers: int = 2) -> Iterator[Done]:
    """Run all tasks and give each when it is done, in no order. One worker runs them here."""
    if workers == 1:
        yield from map(perform, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would take torch's threads along
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for future in as_completed([pool.submit(perform, task) for task in tasks]):
            yield future.result()
