"""Order among the requests of one tenant: Cost against SJF and SVF, the growth gate, aging."""

from __future__ import annotations

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
    from tenantry_bench.gates.group import Plan, Results

BENCH: Final = "make bench DATA=DIR"
AZURE: Final = "N4-azure"
REASONING: Final = "N4-reasoning"
AGING: Final = (10.0, 40.0, 100.0, 300.0, 600.0, 1200.0, 3000.0)
"""Seconds of wait that make up for a GPU second; the largest is nearly pure cost order."""


def run(plan: Plan, name: str, arm: str, seed: int, **more: str) -> Simulation:
    """Return the job of an arm."""
    data = plan.data if name == AZURE else ""
    return Simulation(name, arm, seed, lengths=more.get("lengths", "learned"), data=data)


def ungated(plan: Plan, name: str, seed: int, *, growth: bool) -> Simulation:
    """Return the job of Cost with the growth gate switched."""
    data = plan.data if name == AZURE else ""
    return Simulation(name, "Cost", seed, data=data, growth=growth)


def aged(plan: Plan, name: str, seed: int, aging: float) -> Simulation:
    """Return the job of Cost with this aging."""
    data = plan.data if name == AZURE else ""
    return Simulation(name, "Cost", seed, data=data, aging=aging)


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
            found += [ungated(plan, name, seed, growth=on) for on in (True, False)]
            found += [aged(plan, name, seed, aging) for aging in AGING]
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
    title = name.removeprefix("N4-")
    claims = [
        Claim(
            f"{name}.growth.preemptions",
            f"{title}: growth gate, preemptions fewer",
            ">=",
            60.0,
            "%",
        ),
        Claim(
            f"{name}.growth.makespan", f"{title}: growth gate, makespan over without", "<=", 0.98
        ),
    ]
    shown = BENCH
    if name not in names(plan):
        return without_data(claims, shown)

    def preempted(seed: int) -> Samples:
        gated, free = (results.of(ungated(plan, name, seed, growth=on)) for on in (True, False))
        return one(gated.total("preempted")), one(free.total("preempted"))

    def makespan(seed: int) -> Samples:
        gated, free = (results.of(ungated(plan, name, seed, growth=on)) for on in (True, False))
        return one(gated.end), one(free.end)

    return [
        judged(claims[0], Gauge(plan.seeds, preempted, _fewer, shown), plan.slack),
        judged(claims[1], Gauge(plan.seeds, makespan, estimate.sums, shown), plan.slack),
    ]


def _fewer(ours: Array, other: Array) -> float:
    """By how many per cent the sum is smaller; of nothing nothing can be saved."""
    if not other.sum():
        return 0.0 if ours.sum() else 100.0
    return 100 * (1 - estimate.sums(ours, other))


def _aging(plan: Plan, results: Results, name: str) -> list[Row]:
    if name not in names(plan):
        return []
    return [row for aging in AGING for row in _aged_rows(plan, results, name, aging)]


def _aged_rows(plan: Plan, results: Results, name: str, aging: float) -> list[Row]:
    samples = _pair(
        results,
        lambda seed: aged(plan, name, seed, aging),
        lambda seed: run(plan, name, "FIFO", seed),
    )
    head = f"{name.removeprefix('N4-')}: Cost aged {aging:g} s per GPU s,"
    id_ = f"{name}.aging-{aging:g}"
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
    for aging in AGING:
        arms[f"{aging:g}"] = [aged(plan, name, seed, aging) for seed in plan.seeds]
    found = []
    for title, runs in arms.items():
        pooled = np.concatenate([results.of(job).waits(E2E) for job in runs])
        found.append((title, estimate.mean(pooled), quantile(pooled, 990)))
    return found


GROUP: Final = Group(
    "order",
    "Order inside one tenant (N4)",
    "All requests of one tenant, no fairness and no step budget; A100, 200 s of arrivals, run "
    "until all have ended. Azure: lengths drawn from the public conversation and code traces, 7 "
    "requests a second, 60k tokens of KV. Reasoning: synthetic, 4 a second, 40k tokens.",
    jobs,
    rows,
)
