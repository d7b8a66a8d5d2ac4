"""Order among the requests of one tenant: Cost against SJF and SVF, the growth gate, aging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tenantry_bench.gates import estimate
from tenantry_bench.gates.claims import NO_DATA, Claim, Row
from tenantry_bench.gates.estimate import one
from tenantry_bench.gates.evidence import E2E
from tenantry_bench.gates.group import Gauge, Group, MissingError, judged, without_data
from tenantry_bench.gates.jobs import Simulation, command
from tenantry_bench.simulator.shares import quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.gates.estimate import Array, Samples, Statistic
    from tenantry_bench.gates.evidence import Evidence
    from tenantry_bench.gates.group import Plan, Results

BENCH: Final = "make bench DATA=DIR"
AZURE: Final = "N4-azure"
REASONING: Final = "N4-reasoning"


@dataclass(frozen=True)
class Handicap:
    """How Cost weighs size against waiting: seconds of wait for a GPU second, and for each doubling
    of the GPU seconds.
    """

    aging: float
    doubling: float = 0.0

    @property
    def name(self) -> str:
        """As it stands in ids and pictures."""
        return f"doubling-{self.doubling:g}" if self.doubling else f"aging-{self.aging:g}"

    @property
    def text(self) -> str:
        """As it stands in rows."""
        if self.doubling:
            return f"{self.doubling:g} s for each doubling of GPU seconds"
        return f"{self.aging:g} s for a GPU s"


CURVE: Final = (
    *(Handicap(aging) for aging in (10.0, 40.0, 100.0, 300.0, 1200.0)),
    *(Handicap(0.0, doubling) for doubling in (5.0, 10.0, 25.0)),
)
"""Points between first come, first served and nearly pure cost order."""


def run(plan: Plan, name: str, arm: str, seed: int, **more: str) -> Simulation:
    """Return the job of an arm."""
    data = plan.data if name == AZURE else ""
    return Simulation(name, arm, seed, lengths=more.get("lengths", "learned"), data=data)


def ungated(plan: Plan, name: str, seed: int, *, pace: bool) -> Simulation:
    """Return the job of Cost without the growth gate; it may keep the pace."""
    data = plan.data if name == AZURE else ""
    return Simulation(name, "Cost", seed, data=data, growth=False, pace=None if pace else False)


def aged(plan: Plan, name: str, seed: int, point: Handicap) -> Simulation:
    """Return the job of Cost with this handicap."""
    data = plan.data if name == AZURE else ""
    aging, doubling = point.aging, point.doubling
    return Simulation(name, "Cost", seed, data=data, aging=aging, doubling=doubling)


def names(plan: Plan) -> tuple[str, ...]:
    """The mixes that can be run."""
    return (AZURE, REASONING) if plan.data else (REASONING,)


def jobs(plan: Plan) -> list[Simulation]:
    """The runs of all orders."""
    found = []
    for name in names(plan):
        for seed in plan.seeds:
            for lengths in ("learned", "oracle"):
                found += [
                    run(plan, name, arm, seed, lengths=lengths) for arm in ("Cost", "SJF", "SVF")
                ]
            found.append(run(plan, name, "FIFO", seed))
            found += [ungated(plan, name, seed, pace=pace) for pace in (True, False)]
            found += [aged(plan, name, seed, point) for point in CURVE]
    return found


def rows(plan: Plan, results: Results) -> list[Row]:
    """Mean E2E against other orders, the growth gate, and P99 against the mean by aging."""
    found = _azure(plan, results)
    found += _reasoning(plan, results)
    for name in (AZURE, REASONING):
        found += _growth(plan, results, name)
        found += _aging(plan, results, name)
    return found


def _shown(plan: Plan, name: str, arms: str, *more: str) -> str:
    data = ("--data", "DATA") if name == AZURE else ()
    return command(name, arms, plan.seeds, *more, *data)


def _pair(
    results: Results, ours: Callable[[int], Simulation], other: Callable[[int], Simulation]
) -> Callable[[int], Samples]:
    return lambda seed: (results.of(ours(seed)).waits(E2E), results.of(other(seed)).waits(E2E))


def _compared(
    plan: Plan,
    results: Results,
    claim: Claim,
    told: tuple[str, str, str],
    statistic: Statistic = estimate.percent_below,
) -> Row:
    """Cost against another order; `told` is the mix, the other order and the lengths."""
    name, arm, lengths = told
    shown = _shown(plan, name, f"Cost,{arm}", f"--lengths={lengths}")
    if name not in names(plan):
        return without_data([claim], shown)[0]
    samples = _pair(
        results,
        lambda seed: run(plan, name, "Cost", seed, lengths=lengths),
        lambda seed: run(plan, name, arm, seed, lengths=lengths),
    )
    return judged(claim, Gauge(plan.seeds, samples, statistic, shown), plan.slack)


def _azure(plan: Plan, results: Results) -> list[Row]:
    table = (
        ("SVF", "oracle", 35.0, "true lengths"),
        ("SJF", "oracle", 45.0, "true lengths"),
        ("SJF", "learned", 30.0, "learned lengths on both sides"),
        ("SVF", "learned", None, "learned lengths on both sides"),
    )
    return [
        _compared(
            plan,
            results,
            Claim(
                f"{AZURE}.{lengths}.{arm}",
                f"Azure: Cost's mean E2E below {arm}'s, {text}",
                ">=",
                bound,
                "%",
            ),
            (AZURE, arm, lengths),
        )
        for arm, lengths, bound, text in table
    ]


def _reasoning(plan: Plan, results: Results) -> list[Row]:
    return [
        _compared(
            plan,
            results,
            Claim(
                f"{REASONING}.{lengths}.SVF",
                f"reasoning: Cost's mean E2E over SVF's, {lengths} lengths",
                "<=",
                1.0,
            ),
            (REASONING, "SVF", lengths),
            estimate.means,
        )
        for lengths in ("oracle", "learned")
    ]


def _growth(plan: Plan, results: Results, name: str) -> list[Row]:
    """Judged is what admission by growth does as it is shipped: the gate, and the pace at which
    what it admits comes in. The gate by itself is printed.
    """
    title, found = name.removeprefix("N4-"), list[Row]()
    for tail, text, pace, bounds in (
        ("growth", "growth gate and pace", False, (60.0, 0.98)),
        ("growth.alone", "growth gate, pace in both", True, (None, None)),
    ):
        claims = [
            Claim(
                f"{name}.{tail}.preemptions",
                f"{title}: {text}, preemptions fewer",
                ">=",
                bounds[0],
                "%",
            ),
            Claim(
                f"{name}.{tail}.makespan",
                f"{title}: {text}, makespan over without",
                "<=",
                bounds[1],
            ),
        ]
        if name not in names(plan):
            found += without_data(claims, BENCH)
            continue
        gauges = _growth_gauges(plan, results, name, pace=pace)
        found += [judged(*pair, plan.slack) for pair in zip(claims, gauges, strict=True)]
    return found


def _growth_gauges(plan: Plan, results: Results, name: str, *, pace: bool) -> tuple[Gauge, Gauge]:
    """Preemptions and makespan, against Cost without the gate."""

    def both(seed: int) -> tuple[Evidence, Evidence]:
        free = ungated(plan, name, seed, pace=pace)
        return results.of(run(plan, name, "Cost", seed)), results.of(free)

    def preempted(seed: int) -> Samples:
        gated, free = both(seed)
        return one(gated.total("preempted")), one(free.total("preempted"))

    def makespan(seed: int) -> Samples:
        gated, free = both(seed)
        return one(gated.end), one(free.end)

    return (
        Gauge(plan.seeds, preempted, _fewer, BENCH),
        Gauge(plan.seeds, makespan, estimate.sums, BENCH),
    )


def _fewer(ours: Array, other: Array) -> float:
    """By how many per cent the sum is smaller; of nothing nothing can be saved."""
    if not other.sum():
        return 0.0 if ours.sum() else 100.0
    return 100 * (1 - estimate.sums(ours, other))


def _aging(plan: Plan, results: Results, name: str) -> list[Row]:
    if name not in names(plan):
        return []
    return [row for point in CURVE for row in _aged_rows(plan, results, name, point)]


def _aged_rows(plan: Plan, results: Results, name: str, point: Handicap) -> list[Row]:
    samples = _pair(
        results,
        lambda seed: aged(plan, name, seed, point),
        lambda seed: run(plan, name, "FIFO", seed),
    )
    head = f"{name.removeprefix('N4-')}: Cost aged {point.text},"
    id_ = f"{name}.{point.name}"
    tail = Claim(f"{id_}.p99", f"{head} P99 E2E over FIFO's", goal="1.05")
    mean = Claim(f"{id_}.mean", f"{head} mean E2E below FIFO's", unit="%", goal="35")
    return [
        judged(tail, Gauge(plan.seeds, samples, estimate.ratio(990), BENCH)),
        judged(mean, Gauge(plan.seeds, samples, estimate.percent_below, BENCH)),
    ]


def curve(plan: Plan, results: Results, name: str) -> list[tuple[str, float, float]]:
    """Points of the aging curve: its name, the mean and the P99 of E2E in seconds, seeds pooled.

    Raises MissingError.
    """
    if name not in names(plan):
        raise MissingError(NO_DATA)
    arms = {"FIFO": [run(plan, name, "FIFO", seed) for seed in plan.seeds]}
    for point in CURVE:
        arms[point.name] = [aged(plan, name, seed, point) for seed in plan.seeds]
    found = []
    for title, runs in arms.items():
        pooled = np.concatenate([results.of(job).waits(E2E) for job in runs])
        found.append((title, estimate.mean(pooled), quantile(pooled, 990)))
    return found


GROUP: Final = Group(
    "order",
    "Order inside one tenant (N4)",
    "All requests of one tenant, no fairness and no step budget; Cost, SJF and SVF all with the "
    "growth gate and at its pace, FIFO with vLLM's own steps; A100, 200 s of arrivals, run until "
    "all have ended. Azure: lengths drawn from the public conversation and code traces, 7 "
    "requests a second, 60k tokens of KV. Reasoning: synthetic, 4 a second, 40k tokens.",
    jobs,
    rows,
)
