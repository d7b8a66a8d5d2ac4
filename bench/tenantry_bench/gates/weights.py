"""What a weight buys, by the cost model's own times; and that connections buy nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenantry_bench.gates import estimate
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.estimate import one
from tenantry_bench.gates.group import Gauge, Group, judged
from tenantry_bench.gates.jobs import Simulation, command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tenantry_bench.gates.estimate import Array, Samples
    from tenantry_bench.gates.group import Plan, Results

NAMES: Final[Mapping[str, str]] = {
    "N6-same": "1:2:4, equal shapes",
    "N6-mixed": "1:2:4, three shapes",
    "N6-4to1": "4:1, two shapes",
}
CROWD: Final = "N6-64"
BASE: Final = "N8-64x1"
FANS: Final = ("N8-64x4", "N8-64x16", "N8-128x1", "N8-256x1")
GAP: Final = "GPU s per weight"


def run(scenario: str, seed: int, arm: str = "tenantry", model: str = "learned") -> Simulation:
    """Return the job of an arm."""
    return Simulation(scenario, arm, seed, model=model)


def jobs(plan: Plan) -> list[Simulation]:
    """The runs of all weights, and of the fans."""
    found = []
    for seed in plan.seeds:
        for name in NAMES:
            found += [run(name, seed, arm) for arm in ("tenantry", "stock", "VTC")]
            found.append(run(name, seed, model="oracle"))
        found += [run(CROWD, seed, arm) for arm in ("tenantry", "stock", "VTC")]
        found += [run(name, seed) for name in (BASE, *FANS)]
    return found


def rows(plan: Plan, results: Results) -> list[Row]:
    """Share error, gap and Jain's index; then how much a share moves."""
    found = []
    for name, text in NAMES.items():
        found += _pair(plan, results, name, text)
        found += _pair(plan, results, name, text, model="oracle")
        found += [_other(plan, results, name, arm) for arm in ("stock", "VTC")]
    return [*found, *_crowd(plan, results), *_fans(plan, results)]


def _share(results: Results, job: Simulation, kind: str, factor: float = 1.0) -> Samples:
    return (one(factor * results.of(job).shares[kind]),)


def _pair(plan: Plan, results: Results, name: str, text: str, model: str = "learned") -> list[Row]:
    learned = model == "learned"
    error, gap = (2.0, 0.3) if learned else (1.0, 0.1)
    goals = ("0.2", "0.05") if learned else ("", "")
    id_ = name if learned else f"{name}.oracle"
    told = "" if learned else ", true step model"
    shown = command(name, "tenantry", plan.seeds, *(() if learned else ("--model=oracle",)))

    def gauge(kind: str, factor: float) -> Gauge:
        return Gauge(
            plan.seeds,
            lambda seed: _share(results, run(name, seed, model=model), kind, factor),
            estimate.largest,
            shown,
        )

    return [
        judged(
            Claim(
                f"{id_}.error",
                f"{text}{told}: GPU-time share off, any 60 s",
                "<=",
                error,
                "%",
                goals[0],
            ),
            gauge("error", 100.0),
            plan.slack,
        ),
        judged(
            Claim(f"{id_}.gap", f"{text}{told}: largest gap", "<=", gap, GAP, goals[1]),
            gauge("gap", 1.0),
            plan.slack,
        ),
    ]


def _other(plan: Plan, results: Results, name: str, arm: str) -> Row:
    claim = Claim(
        f"{name}.{arm}.error", f"{NAMES.get(name, name)} under {arm}: share off", unit="%"
    )
    gauge = Gauge(
        plan.seeds,
        lambda seed: _share(results, run(name, seed, arm), "error", 100.0),
        estimate.largest,
        command(name, arm, plan.seeds),
    )
    return judged(claim, gauge)


def _crowd(plan: Plan, results: Results) -> list[Row]:
    shown = command(CROWD, "stock,VTC,tenantry", plan.seeds)

    def gauge(kind: str, factor: float, statistic: Callable[..., float]) -> Gauge:
        return Gauge(
            plan.seeds,
            lambda seed: _share(results, run(CROWD, seed), kind, factor),
            statistic,
            shown,
        )

    text = "64 tenants of equal weight"
    return [
        judged(
            Claim(f"{CROWD}.error", f"{text}: GPU-time share off, any 60 s", "<=", 10.0, "%", "2"),
            gauge("error", 100.0, estimate.largest),
            plan.slack,
        ),
        judged(
            Claim(f"{CROWD}.jain", f"{text}: Jain's index", ">=", 0.995, ""),
            gauge("jain", 1.0, estimate.smallest),
        ),
        _other(plan, results, CROWD, "stock"),
        _other(plan, results, CROWD, "VTC"),
    ]


def _fans(plan: Plan, results: Results) -> list[Row]:
    """The share of `a` over all seeds, against the one that it has with 64 over one connection."""
    found = []
    for name in FANS:
        claim = Claim(
            f"{name}.share",
            f"a's share with {name.removeprefix('N8-')} (in flight x connections) moves from that "
            "with 64x1 by",
            "<=",
            1.0,
            "%",
            "0.2",
        )

        def samples(seed: int, name: str = name) -> Samples:
            parts: list[float] = []
            for each in (results.of(run(name, seed)), results.of(run(BASE, seed))):
                parts += [each.total("gpu", "a"), each.total("gpu")]
            return tuple(map(one, parts))

        shown = command(f"{BASE} {name}", "tenantry", plan.seeds)
        gauge = Gauge(plan.seeds, samples, _moved, shown)
        found.append(judged(claim, gauge, plan.slack))
    return found


def _moved(*parts: Array) -> float:
    a, whole, base_a, base_whole = (float(part.sum()) for part in parts)
    return 100 * abs(a / whole / (base_a / base_whole) - 1)


GROUP: Final = Group(
    "weights",
    "Weights (N6) and fan-out (N8)",
    "All tenants backlogged in closed loops, A100, 150 s (N8 120 s) from second 10 on. Shares are "
    "of GPU seconds by the simulator's table, never by the plugin's own counters; the worst seed "
    "counts. N8: a and b of equal weight, b with 256 in flight.",
    jobs,
    rows,
)
