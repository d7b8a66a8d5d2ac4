"""Many real clients of very different rates (N7): those under their share against a share alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.evidence import TTFT
from tenantry_bench.gates.group import Gauge, Group, judged, without_data
from tenantry_bench.gates.jobs import Simulation, command
from tenantry_bench.simulator.shares import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tenantry_bench.gates.estimate import Samples
    from tenantry_bench.gates.evidence import Evidence
    from tenantry_bench.gates.group import Plan, Results

NAMES: Final = ("N7-0.8", "N7-1.1", "N7-1.5")
ARMS: Final = ("tenantry", "dedicated", "stock")
ENOUGH: Final = 100
"""Requests, over all seeds, from which on a client has a P99 of its own."""


def run(plan: Plan, name: str, arm: str, seed: int) -> Simulation:
    """Return the job of an arm."""
    return Simulation(name, arm, seed, data=plan.data)


def jobs(plan: Plan) -> list[Simulation]:
    """The runs of all utilisations; none without data."""
    if not plan.data:
        return []
    return [run(plan, name, arm, seed) for name in NAMES for seed in plan.seeds for arm in ARMS]


def rows(plan: Plan, results: Results) -> list[Row]:
    """Two rows for each utilisation, and the same of stock, printed."""
    return [row for name in NAMES for row in _utilisation(plan, results, name)]


def light(parts: Sequence[Evidence]) -> list[str]:
    """Clients whose requests ask for less of the GPU than an equal share is, over all seeds."""
    asked: defaultdict[str, float] = defaultdict(float)
    seconds = 0.0
    for part in parts:
        seconds += part.window[1] - part.window[0]
        for each in part.measured().values():
            asked[each.tenant] += each.work
    share = seconds / len(parts[0].tenants)
    return [name for name in parts[0].tenants if 0.0 < asked[name] < share]


def _claims(name: str) -> list[Claim]:
    utilisation = name.removeprefix("N7-")
    head = f"utilisation {utilisation}, clients under their share"
    many = f"{head}, n >= {ENOUGH}: worst TTFT P99 over dedicated"
    few = f"{head}, the others pooled: P99 of each TTFT over its dedicated one"
    return [
        Claim(f"{name}.ttft.p99", many, "<=", 2.0, "x", "1.5"),
        Claim(f"{name}.pooled.p99", few, "<=", 2.0, "x", "1.5"),
        Claim(f"{name}.stock.ttft.p99", f"stock, {many}"),
    ]


def _utilisation(plan: Plan, results: Results, name: str) -> list[Row]:
    claims = _claims(name)
    shown = command(name, "dedicated,stock,tenantry", plan.seeds, "--data", "DATA")
    if not plan.data:
        return without_data(claims, shown)

    def pairs(arm: str, *, many: bool) -> Gauge:
        def samples(seed: int) -> Samples:
            found = [results.of(run(plan, name, "dedicated", each)) for each in plan.seeds]
            chosen = _chosen(found, many=many)
            alone = results.of(run(plan, name, "dedicated", seed))
            return (_matched(results.of(run(plan, name, arm, seed)), alone, chosen),)

        return Gauge(plan.seeds, samples, _worst if many else _pooled, shown)

    return [
        judged(claims[0], pairs("tenantry", many=True), plan.slack),
        judged(claims[1], pairs("tenantry", many=False), plan.slack),
        judged(claims[2], pairs("stock", many=True)),
    ]


def _chosen(parts: Sequence[Evidence], *, many: bool) -> list[str]:
    counts: defaultdict[str, int] = defaultdict(int)
    for part in parts:
        for each in part.measured().values():
            counts[each.tenant] += 1
    return [name for name in light(parts) if (counts[name] >= ENOUGH) is many]


def _matched(ours: Evidence, alone: Evidence, chosen: Sequence[str]) -> NDArray[np.float64]:
    """A row for each request: its client's number, its TTFT and its dedicated one."""
    found = []
    for name, each in ours.measured().items():
        if each.tenant in chosen:
            other = alone.wait(TTFT, alone.requests[name])
            found.append((chosen.index(each.tenant), ours.wait(TTFT, each), other))
    return np.array(found, dtype=float).reshape(-1, 3)


def _worst(sample: NDArray[np.float64]) -> float:
    found = []
    for client in np.unique(sample[:, 0]):
        mine = sample[sample[:, 0] == client]
        found.append(quantile(mine[:, 1], 990) / quantile(mine[:, 2], 990))
    return max(found)


def _pooled(sample: NDArray[np.float64]) -> float:
    return quantile(sample[:, 1] / sample[:, 2], 990)


GROUP: Final = Group(
    "clients",
    "Many clients (N7)",
    "The 16 busiest m-mid clients of ServeGen with equal weights, rates scaled so that together "
    "they ask for so much of the GPU; A100, 600 s, arrivals from second 30 to 540. Under its share "
    "is a client whose requests ask for less than a sixteenth. `dedicated`: alone on a GPU a "
    "sixteenth as fast.",
    jobs,
    rows,
    data=True,
)
