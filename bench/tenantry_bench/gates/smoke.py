"""A small table with bounds of its own: does the scheduler still do what it is for?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tenantry_bench.gates import estimate
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.estimate import one
from tenantry_bench.gates.evidence import E2E, FAILED, ITL, REFUSED, TTFT
from tenantry_bench.gates.group import Gauge, Group, judged, measured
from tenantry_bench.gates.jobs import Alike, Simulation
from tenantry_bench.simulator.shares import quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.gates.estimate import Array, Samples
    from tenantry_bench.gates.group import Plan, Results
    from tenantry_bench.gates.jobs import Job

    Table = tuple[tuple[Claim, Callable[[int], Samples], Callable[..., float]], ...]

QUIET: Final = "quiet"
COMMAND: Final = "make bench-smoke"
NEIGHBOUR: Final = Simulation("N1", "tenantry", 11, keep=(QUIET,), duration=80.0)
WEIGHTS: Final = Simulation("N6-4to1", "tenantry", 11, duration=75.0)
ALIKE: Final = Alike("N1", "flooder", 11, 20.0)


def run(arm: str) -> Simulation:
    """Return the short N1 on an arm; `alone` is the quiet tenant alone."""
    return replace(NEIGHBOUR, arm=arm, only=QUIET if arm == "alone" else "")


def jobs(plan: Plan) -> list[Job]:
    """A short N1 on three arms, weights 4:1, and one tenant beside stock."""
    del plan
    return [
        *(run(arm) for arm in ("tenantry", "stock", "alone")),
        WEIGHTS,
        ALIKE,
    ]


def rows(plan: Plan, results: Results) -> list[Row]:
    """The rows. There are about 60 quiet requests: their P90 is judged, not their P99."""
    del plan
    stock, alone = run("stock"), run("alone")

    def waits(kind: str) -> Callable[[int], Samples]:
        return lambda _: tuple(results.of(job).waits(kind, QUIET) for job in (NEIGHBOUR, alone))

    def service(_: int) -> Samples:
        return tuple(one(results.of(job).total("service")) for job in (NEIGHBOUR, stock))

    def lost(_: int) -> Samples:
        each = results.of(NEIGHBOUR)
        return (one(each.count(REFUSED) + each.count(FAILED)),)

    def itl(_: int) -> Samples:
        return (results.of(NEIGHBOUR).waits(ITL, QUIET),)

    p90 = estimate.ratio(900)
    table: Table = (
        (Claim("smoke.ttft.p90", "N1, quiet TTFT P90 over alone", "<=", 4.0), waits(TTFT), p90),
        (Claim("smoke.e2e.p90", "N1, quiet E2E P90 over alone", "<=", 3.0), waits(E2E), p90),
        (
            Claim("smoke.itl.p99", "N1, quiet ITL P99", "<=", 40.0, "ms"),
            itl,
            lambda sample: 1e3 * quantile(sample, 990),
        ),
        (
            Claim("smoke.service", "N1, service over stock's", ">=", 0.85),
            service,
            estimate.sums,
        ),
        (Claim("smoke.refused", "N1, requests refused or failed", "==", 0, ""), lost, _sum),
        *_weights(results),
    )
    found = [
        judged(claim, Gauge((NEIGHBOUR.seed,), samples, statistic, COMMAND))
        for claim, samples, statistic in table
    ]
    equal = Claim("smoke.alike", "one tenant: all steps equal to vLLM's (1: yes)", "==", 1, "")
    return [*found, measured(equal, COMMAND, lambda: float(results.body(ALIKE)["equal"]))]


def _weights(results: Results) -> Table:
    def share(kind: str, factor: float) -> Callable[[int], Samples]:
        return lambda _: (one(factor * results.of(WEIGHTS).shares[kind]),)

    return (
        (
            Claim(
                "smoke.weights.error", "weights 4:1, GPU-time share off, any 60 s", "<=", 5.0, "%"
            ),
            share("error", 100.0),
            estimate.largest,
        ),
        (
            Claim("smoke.weights.gap", "weights 4:1, largest gap", "<=", 1.0, "GPU s per weight"),
            share("gap", 1.0),
            estimate.largest,
        ),
    )


def _sum(sample: Array) -> float:
    return float(sample.sum())


GROUP: Final = Group(
    "smoke",
    "Smoke",
    "N1 for 80 s and weights 4:1 for 75 s, one seed, and one tenant for 20 s. The bounds are "
    "looser than those of the gates: a single short run says whether something broke, not how "
    "good it is.",
    jobs,
    rows,
)
