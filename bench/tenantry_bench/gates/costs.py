"""What the scheduler costs, that it is vLLM's own where there is one tenant, and random loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tenantry_bench.gates import group, neighbour
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.group import Gauge, Group, measured
from tenantry_bench.gates.jobs import Alike, Overhead, Recount, command
from tenantry_bench.overhead import CASES
from tenantry_bench.simulator.catalogue import SCENARIOS
from tenantry_core.ordering import ORDERINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.gates.group import Plan, Results
    from tenantry_bench.gates.jobs import Job

TENANTS: Final = 64
OVERHEAD: Final = tuple(case for case in CASES if case.tenants == TENANTS)
TIMED: Final = "python -m tenantry_bench.overhead"
RECOUNTED: Final = "python -m tenantry_bench.gates.drift ORDERING 10000"
MEASURED: Final = 60.0
ALIKE: Final = Alike("N1", "flooder", 11, 60.0)


def jobs(plan: Plan) -> list[Job]:
    """The measurements, the comparison, and the random loads. Speed is that of N1's runs."""
    found: list[Job] = [Overhead(case.name) for case in OVERHEAD]
    found.append(ALIKE)
    found += [Recount(ordering, other=other) for ordering in ORDERINGS for other in (False, True)]
    return [*found, *(neighbour.run(neighbour.VARIATIONS[0], "tenantry", s) for s in plan.family)]


def rows(plan: Plan, results: Results) -> list[Row]:
    """Overhead, equal steps, speed, drift."""
    found = []
    for case in OVERHEAD:
        found += _overhead(results, Overhead(case.name), judged=case.judged)
    found.append(
        measured(
            Claim("alike", "one tenant: all steps equal to vLLM's (1: yes)", "==", 1, ""),
            command("N1", "stock,tenantry:FIFO", (ALIKE.seed,)),
            lambda: float(results.body(ALIKE)["equal"]),
        )
    )
    found.append(_speed(plan, results))
    for ordering in ORDERINGS:
        found += [_recount(results, Recount(ordering, other=each)) for each in (False, True)]
    return found


def _overhead(results: Results, job: Overhead, *, judged: bool) -> list[Row]:
    most, tail_most = (10.0, 1.25) if judged else (None, None)

    def figure(name: str, factor: float = 1.0) -> Callable[[], float]:
        return lambda: factor * float(results.body(job)[name])

    slug = job.case.replace(" ", "-").replace(",", "")
    shown = f"{TIMED} --only '{job.case}'"
    added = Claim(
        f"overhead.{slug}.added", f"{job.case}: added to schedule()", "<=", most, "%", "5"
    )
    tail = Claim(f"overhead.{slug}.p99", f"{job.case}: P99 over stock's", "<=", tail_most)
    micro = Claim(f"overhead.{slug}.us", f"{job.case}: our schedule(), P50", unit="us")
    return [
        measured(added, shown, figure("added", 100.0), job.runs),
        measured(tail, shown, figure("tail"), job.runs),
        measured(micro, shown, figure("ours_us"), job.runs),
    ]


def _speed(plan: Plan, results: Results) -> Row:
    first, seconds = neighbour.VARIATIONS[0], SCENARIOS["N1"].duration
    claim = Claim(
        "speed", "N1: simulated seconds in one of CPU time, median run", ">=", 20.0, "x", "35-50"
    )
    gauge = Gauge(
        plan.family,
        lambda seed: (
            np.array([seconds / results.of(neighbour.run(first, "tenantry", seed)).cpu]),
        ),
        lambda sample: float(np.median(sample)),
        command("N1", "tenantry", plan.family),
    )
    return group.judged(claim, gauge)


def _recount(results: Results, job: Recount) -> Row:
    claim = Claim(
        f"recount.{job.ordering}{'.other' * job.other}",
        f"{job.ordering}{', vLLM 0.33' * job.other}: cells of {job.steps:,} random steps in which "
        "a counter drifted",
        "==",
        0,
        "",
    )

    def drifted() -> float:
        return float(len(results.body(job)["drifted"]))

    return measured(claim, RECOUNTED, drifted, job.steps)


GROUP: Final = Group(
    "costs",
    "Cost, equality, speed, counters",
    "Overhead: CPU time of the thread, interleaved with stock in one process, 1,000 waiting, "
    "median of 5; what is added from means of 16 steps, the 99th percentile of single steps. "
    "Random loads: every ordering with both of vLLM's schedulers and two releases of "
    "vLLM; every counter is counted a second time after each step. Each other fairness has a tenth "
    "of the steps in `make test`.",
    jobs,
    rows,
)
