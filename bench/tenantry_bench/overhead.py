"""What Tenantry's scheduler adds to the CPU time of vLLM's `schedule()`.

`python -m tenantry_bench.overhead` builds vLLM's scheduler and ours in one process, gives both the
same load and steps them in turns, so that whatever else the machine does hits both alike. Times
are CPU time of the thread; the garbage collector is frozen; each case is measured several times and
the median of the runs counts. Exit status 1: a limit was missed.
"""

import argparse
import gc
import importlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import CollectorRegistry

from tenantry_core.quantiles import quantile
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics

SECONDS: Final = 0.025
"""What a step takes on the virtual clock: windows of the scheduler pass as on an engine."""
WAITING: Final = 1000
PROMPT: Final = 24
ADDED: Final = 0.10
TAIL: Final = 1.25
"""The limits: added CPU time over stock's at the median, and ours over stock's at the 99th
percentile."""


@dataclass(frozen=True)
class Case:
    """So many running requests of so many tenants. With `admissions` answers end, so that about
    every step takes a request from the queue; without, every seat is taken throughout."""

    running: int
    tenants: int
    admissions: bool = False

    @property
    def name(self) -> str:
        """For a table."""
        turnover = "admitting" if self.admissions else "full"
        return f"{self.running} running, {self.tenants} tenants, {turnover}"


CASES: Final = tuple(
    Case(running, tenants, admissions)
    for admissions in (False, True)
    for running in (64, 256)
    for tenants in (1, 4, 64)
)


@dataclass(frozen=True)
class Figures:
    """Microseconds of CPU time: `schedule()` of stock and of ours, and both calls of a step."""

    case: Case
    stock_p50: float
    stock_p99: float
    ours_p50: float
    ours_p99: float
    stock_update: float
    ours_update: float

    @property
    def added(self) -> float:
        """The part of stock's `schedule()` that ours takes in addition."""
        return self.ours_p50 / self.stock_p50 - 1.0

    @property
    def within(self) -> bool:
        """Whether both limits hold."""
        return self.added <= ADDED and self.ours_p99 <= TAIL * self.stock_p99


@dataclass
class Clock:
    """A clock that steps move."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Lane:
    """One scheduler under load, with the CPU seconds of its calls."""

    scheduler: Any
    clock: Clock
    case: Case
    offline: Any
    serial: int = 0
    schedule: list[float] = field(default_factory=list)
    update: list[float] = field(default_factory=list)

    def fill(self) -> None:
        """Keep WAITING requests in the queue, the tenants in turns."""
        for _ in range(WAITING + self.case.running - len(self.scheduler.requests)):
            tenant = f"tenant-{self.serial % self.case.tenants}"
            output = 40 + self.serial % 48 if self.case.admissions else 1900
            name = f"{tenant}-{self.serial}"
            prompt = self.offline.Prompt(PROMPT)
            self.scheduler.add_request(self.offline.request(name, prompt, output, tenant=tenant))
            self.serial += 1

    def step(self) -> None:
        """One step; both calls are timed."""
        began = time.thread_time()
        output = self.scheduler.schedule()
        self.schedule.append(time.thread_time() - began)
        answer = self._answer(output)
        self.clock.now += SECONDS
        began = time.thread_time()
        self.scheduler.update_from_output(output, answer)
        self.update.append(time.thread_time() - began)

    def _answer(self, output: Any) -> Any:
        requests, word = self.scheduler.requests, [self.offline.WORD]
        ids = list(output.num_scheduled_tokens)
        return self.offline.answer(ids, [word * (not requests[i].is_prefill_chunk) for i in ids])


def pair(case: Case) -> tuple[Lane, Lane]:
    """vLLM's scheduler under the case's load, and ours."""
    # Imports vLLM, which takes seconds.
    offline = importlib.import_module("tenantry_engine.offline")
    conductor = importlib.import_module("tenantry_engine.conductor")
    size = offline.Size(seats=case.running, blocks=130 * case.running + 2000)
    config, clock = EngineConfig(open_tenants=True), Clock()
    setup = conductor.Setup(config, EngineMetrics(config, CollectorRegistry()), clock=clock)
    return (
        Lane(offline.stock(size), Clock(), case, offline),
        Lane(offline.ours(size, setup), clock, case, offline),
    )


def measure(case: Case, steps: int) -> Figures:
    """One run."""
    lanes = pair(case)
    for _ in range(3 * case.running // 2 + 60):
        for lane in lanes:
            lane.fill()
            lane.step()
    for lane in lanes:
        lane.schedule.clear()
        lane.update.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number in range(steps):
            for lane in lanes if number % 2 else lanes[::-1]:
                lane.fill()
                lane.step()
    finally:
        gc.enable()
        gc.unfreeze()
    return _figures(case, *lanes)


def median(runs: Sequence[Figures]) -> Figures:
    """Each figure's median over the runs of one case."""
    names = ("stock_p50", "stock_p99", "ours_p50", "ours_p99", "stock_update", "ours_update")
    middle = {name: statistics.median(getattr(run, name) for run in runs) for name in names}
    return Figures(runs[0].case, **middle)


def table(figures: Sequence[Figures]) -> str:
    """Microseconds, one line a case."""
    lines = [
        "| case | stock p50 / p99 us | ours p50 / p99 us | added | update us | |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_line, figures)])


def _line(each: Figures) -> str:
    return (
        f"| {each.case.name} | {each.stock_p50:.0f} / {each.stock_p99:.0f} "
        f"| {each.ours_p50:.0f} / {each.ours_p99:.0f} "
        f"| {each.ours_p50 - each.stock_p50:+.0f} us ({each.added:+.1%}) "
        f"| {each.stock_update:.0f} -> {each.ours_update:.0f} "
        f"| {'reached' if each.within else 'not reached'} |"
    )


def _figures(case: Case, stock: Lane, ours: Lane) -> Figures:
    return Figures(
        case,
        *(_micro(lane.schedule, q) for lane in (stock, ours) for q in (500, 990)),
        *(_micro(lane.update, 500) for lane in (stock, ours)),
    )


def _micro(values: Sequence[float], thousandths: int) -> float:
    return 1e6 * quantile(sorted(values), thousandths)


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = argparse.ArgumentParser(
        prog="python -m tenantry_bench.overhead", description=__doc__, allow_abbrev=False
    )
    made.add_argument("--runs", type=int, default=5, help="runs of each case (default: 5)")
    made.add_argument("--steps", type=int, default=300, help="steps of a run (default: 300)")
    made.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this in it")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every case, print the table; 1 if a limit was missed."""
    options = parser().parse_args(argv)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    figures = []
    for case in CASES:
        if options.only in case.name:
            runs = [measure(case, options.steps) for _ in range(options.runs)]
            figures.append(median(runs))
            print(f"{case.name}: {figures[-1].added:+.1%}", file=sys.stderr)  # noqa: T201
    print(table(figures))  # noqa: T201
    return 0 if all(each.within for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
