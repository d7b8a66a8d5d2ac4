"""What Tenantry's scheduler adds to the CPU time of vLLM's `schedule()`.

`python -m tenantry_bench.overhead` builds vLLM's scheduler and ours in one process, gives both the
same load and steps them in turns, so that whatever else the machine does hits both alike. Times
are CPU time of the thread; the garbage collector is frozen; each case is measured several times and
the median of the runs counts. Exit status 1: a limit was missed.

The clock is virtual. A step takes what a profile of the simulator (`PROFILE`) says of what it
holds, times log-normal noise, and our scheduler measures that as on an engine: steps of one length
whatever they hold, which no engine has, would keep it learning. What counts is the steady state,
after each tenant has ended SEEN requests. What the first steps cost is printed beside it, and so
is what lies outside `schedule()`: a request that arrives, and `update_from_output`, both with what
ours adds.

A step is dearer the more requests begin a KV block in it. Each begins one in 16 steps, but how many
do so at once depends on when they were admitted, so what ours adds is told from means of 16 steps
(the median of them). The 99th percentile is that of single steps.
"""

import argparse
import gc
import importlib
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from prometheus_client import CollectorRegistry

from tenantry_bench.simulator import profiles
from tenantry_bench.simulator.profiles import Costs, Work
from tenantry_core.quantiles import quantile
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics

PROFILE: Final = "a100-llama3-8b"
NOISE: Final = 0.05
"""What steps take on the virtual clock, and the coefficient of variation of the noise on it."""
SEEN: Final = 16
SETTLED: Final = 500
"""Requests of each tenant that end, where any do, and steps, before the measurement."""
FIRST: Final = 300
"""Steps from full seats on whose cost is printed beside."""
WAITING: Final = 1000
PROMPTS: Final = (17, 32)
"""Prompt tokens at least and at most."""
FULL, ADMITTING, SHORT = "full", "admitting", "short answers"
ANSWERS: Final = {FULL: (1900, 1900), ADMITTING: (200, 311), SHORT: (40, 87)}
"""Output tokens at least and at most. Where every seat is to be taken throughout, no answer ends.
With answers as long as those of the flood in N1, 256 on average, a step takes one from the queue
with 256 running, one in four steps does with 64. Short answers are a load that does little but
admit: they are printed, with no limit."""
BLOCK: Final = 16
"""Tokens of a block, and so the steps in which each request that decodes begins one."""
ADDED: Final = 0.10
TAIL: Final = 1.25
"""The limits: added CPU time over stock's at the median, and ours over stock's at the 99th
percentile."""


@dataclass(frozen=True)
class Case:
    """So many running requests of so many tenants, and how long their answers are: a key of
    `ANSWERS`."""

    running: int
    tenants: int
    answers: str = FULL

    @property
    def name(self) -> str:
        """For a table."""
        return f"{self.running} running, {self.tenants} tenants, {self.answers}"

    @property
    def judged(self) -> bool:
        """Whether the limits are to hold."""
        return self.answers != SHORT

    @property
    def filling(self) -> int:
        """Steps until every seat is taken, one request at a time: so neither chooses, and what
        runs is the same with both."""
        return self.running + 20

    @property
    def settling(self) -> int:
        """Steps before the measurement."""
        ending = SEEN * self.tenants * ANSWERS[self.answers][1] // self.running
        return self.filling + (SETTLED if self.answers == FULL else max(ending, SETTLED))


CASES: Final = tuple(
    Case(running, tenants, answers)
    for answers in ANSWERS
    for running in (64, 256)
    for tenants in (1, 4, 64)
)


@dataclass(frozen=True)
class Figures:
    """Microseconds of CPU time: `schedule()` of stock and of ours, and medians of the other calls.
    `added` is what ours adds to `schedule()`, over stock's, and `first` the same at first.
    """

    case: Case
    stock_p50: float
    stock_p99: float
    ours_p50: float
    ours_p99: float
    stock_update: float
    ours_update: float
    stock_add: float
    ours_add: float
    first: float
    added: float

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


class Gpu:
    """How long steps take, by the profile."""

    def __init__(self) -> None:
        self._costs = Costs(profiles.find(PROFILE).times)
        self._sigma = math.sqrt(math.log1p(NOISE**2))
        self._numbers = random.Random(1)  # noqa: S311 - not for secrets

    def seconds(self, output: Any, requests: Any) -> float:
        """What a step takes that was just scheduled."""
        given = output.num_scheduled_tokens
        context, attention = 0, 0.0
        for name, tokens in given.items():
            end = requests[name].num_computed_tokens
            if end > requests[name].num_prompt_tokens:
                context += end
            else:
                attention += tokens * (end - tokens / 2)
        mixed = context > 0 and attention > 0.0
        work = Work(sum(given.values()), len(given), context, attention, mixed=mixed)
        noise = self._numbers.lognormvariate(-(self._sigma**2) / 2, self._sigma)
        return self._costs.seconds(work) * noise


@dataclass
class Lane:
    """One scheduler under load, with the CPU seconds of its calls."""

    scheduler: Any
    clock: Clock
    case: Case
    offline: Any
    sizes: random.Random
    gpu: Gpu = field(default_factory=Gpu)
    serial: int = 0
    schedule: list[float] = field(default_factory=list)
    update: list[float] = field(default_factory=list)
    add: list[float] = field(default_factory=list)

    def clear(self) -> None:
        """Forget the times."""
        for times in (self.schedule, self.update, self.add):
            times.clear()

    def fill(self, most: int) -> None:
        """Keep WAITING requests in the queue, the tenants in turns; at `most` so many at once."""
        for _ in range(min(WAITING + self.case.running - len(self.scheduler.requests), most)):
            tenant = f"tenant-{self.serial % self.case.tenants}"
            prompt = self.offline.Prompt(self.sizes.randint(*PROMPTS))
            output = self.sizes.randint(*ANSWERS[self.case.answers])
            name = f"{tenant}-{self.serial}"
            request = self.offline.request(
                name, prompt, output, tenant=tenant, arrival=self.clock.now
            )
            began = time.thread_time()
            self.scheduler.add_request(request)
            self.add.append(time.thread_time() - began)
            self.serial += 1

    def step(self) -> None:
        """One step; both calls are timed."""
        began = time.thread_time()
        output = self.scheduler.schedule()
        self.schedule.append(time.thread_time() - began)
        answer = self._answer(output)
        self.clock.now += self.gpu.seconds(output, self.scheduler.requests)
        began = time.thread_time()
        self.scheduler.update_from_output(output, answer)
        self.update.append(time.thread_time() - began)

    def _answer(self, output: Any) -> Any:
        requests, word = self.scheduler.requests, [self.offline.WORD]
        ids = list(output.num_scheduled_tokens)
        return self.offline.answer(ids, [word * (not requests[i].is_prefill_chunk) for i in ids])


def pair(case: Case, seed: int = 1) -> tuple[Lane, Lane]:
    """vLLM's scheduler under the case's load, and ours; of one seed the requests are the same."""
    # Imports vLLM, which takes seconds.
    offline = importlib.import_module("tenantry_engine.offline")
    conductor = importlib.import_module("tenantry_engine.conductor")
    size = offline.Size(seats=case.running, blocks=130 * case.running + 2000)
    config, clock = EngineConfig(open_tenants=True), Clock()
    setup = conductor.Setup(config, EngineMetrics(config, CollectorRegistry()), clock=clock)
    return (
        Lane(offline.stock(size), Clock(), case, offline, random.Random(seed)),  # noqa: S311
        Lane(offline.ours(size, setup), clock, case, offline, random.Random(seed)),  # noqa: S311
    )


def measure(case: Case, steps: int, seed: int = 1) -> Figures:
    """One run."""
    lanes = pair(case, seed)
    _play(lanes, case.filling, arriving=1)
    for lane in lanes:
        lane.clear()
    _play(lanes, FIRST)
    first = _added(lanes)
    _play(lanes, case.settling - FIRST)
    for lane in lanes:
        lane.clear()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        _play(lanes, steps)
    finally:
        gc.enable()
        gc.unfreeze()
    return _figures(lanes, first)


def _play(lanes: Sequence[Lane], steps: int, arriving: int = WAITING) -> None:
    """Step all, in turns."""
    for number in range(steps):
        for lane in lanes if number % 2 else lanes[::-1]:
            lane.fill(arriving)
            lane.step()


def median(runs: Sequence[Figures]) -> Figures:
    """Each figure's median over the runs of one case."""
    names = [each.name for each in fields(Figures) if each.name != "case"]
    middle = {name: statistics.median(getattr(run, name) for run in runs) for name in names}
    return Figures(runs[0].case, **middle)


def table(figures: Sequence[Figures]) -> str:
    """Microseconds, one line a case."""
    columns = ("case", "stock p50 / p99", "ours p50 / p99", "added", "p99 over stock's", "at first")
    heads = "| " + " | ".join((*columns, "update", "arrival", "")) + " |"
    return "\n".join([heads, "|---" * (len(columns) + 3) + "|", *map(_line, figures)])


def _line(each: Figures) -> str:
    return (
        f"| {each.case.name} | {each.stock_p50:.0f} / {each.stock_p99:.0f} "
        f"| {each.ours_p50:.0f} / {each.ours_p99:.0f} "
        f"| {each.added:+.1%} "
        f"| {each.ours_p99 / each.stock_p99:.2f} | {each.first:+.1%} "
        f"| {each.stock_update:.0f} -> {each.ours_update:.0f} "
        f"| {each.stock_add:.0f} -> {each.ours_add:.0f} "
        f"| {_verdict(each)} |"
    )


def _verdict(each: Figures) -> str:
    if not each.case.judged:
        return "printed"
    return "reached" if each.within else "not reached"


def _figures(lanes: Sequence[Lane], first: float) -> Figures:
    stock, ours = lanes
    return Figures(
        case=stock.case,
        stock_p50=_micro(stock.schedule, 500),
        stock_p99=_micro(stock.schedule, 990),
        ours_p50=_micro(ours.schedule, 500),
        ours_p99=_micro(ours.schedule, 990),
        stock_update=_micro(stock.update, 500),
        ours_update=_micro(ours.update, 500),
        stock_add=_micro(stock.add, 500),
        ours_add=_micro(ours.add, 500),
        first=first,
        added=_added(lanes),
    )


def _added(lanes: Sequence[Lane]) -> float:
    stock, ours = (statistics.median(_means(lane.schedule)) for lane in lanes)
    return ours / stock - 1.0


def _means(values: Sequence[float]) -> list[float]:
    """Of BLOCK steps each."""
    ends = range(BLOCK, len(values) + 1, BLOCK)
    return [statistics.fmean(values[end - BLOCK : end]) for end in ends]


def _micro(values: Sequence[float], thousandths: int) -> float:
    return 1e6 * quantile(sorted(values), thousandths) if values else 0.0


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    made = argparse.ArgumentParser(
        prog="python -m tenantry_bench.overhead", description=__doc__, allow_abbrev=False
    )
    made.add_argument("--runs", type=int, default=5, help="runs of each case (default: 5)")
    made.add_argument("--steps", type=int, default=600, help="steps of a run (default: 600)")
    made.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this in it")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every case, print the table; 1 if a limit was missed."""
    options = parser().parse_args(argv)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    figures = []
    for case in CASES:
        if options.only in case.name:
            runs = [measure(case, options.steps, seed) for seed in range(options.runs)]
            figures.append(median(runs))
            print(f"{case.name}: {figures[-1].added:+.1%}", file=sys.stderr)  # noqa: T201
    print(table(figures))  # noqa: T201
    return 0 if all(each.within for each in figures if each.case.judged) else 1


if __name__ == "__main__":
    sys.exit(main())
