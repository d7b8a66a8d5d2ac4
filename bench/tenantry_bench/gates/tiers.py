"""DriftSched's five orderings on an L4-like profile. Printed: its workload is not public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenantry_bench.gates import estimate, scenarios
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.evidence import E2E
from tenantry_bench.gates.group import Gauge, Group, judged
from tenantry_bench.gates.jobs import Simulation

if TYPE_CHECKING:
    from tenantry_bench.gates.estimate import Samples
    from tenantry_bench.gates.group import Plan, Results

PROFILE: Final = "l4-qwen2.5-7b"
ORDERINGS: Final = ("Priority", "Weighted", "SJF", "AgingPriority")
ABSTRACT: Final = {"SJF": ("-42", "-16")}
"""What DriftSched's abstract says of SJF against FIFO: median and P99, in per cent."""


def run(arm: str, seed: int) -> Simulation:
    """Return the job of an arm."""
    return Simulation(scenarios.TIERS, arm, seed, profile=PROFILE)


def jobs(plan: Plan) -> list[Simulation]:
    """The runs of the orderings, of FIFO, and of the policy with fairness."""
    arms = ("FIFO", *ORDERINGS, "tenantry")
    return [run(arm, seed) for arm in arms for seed in plan.seeds]


def rows(plan: Plan, results: Results) -> list[Row]:
    """Median and P99 of E2E against FIFO, change in per cent."""
    found = []
    for arm in (*ORDERINGS, "tenantry"):
        goals = ABSTRACT.get(arm, ("", ""))
        for goal, (text, thousandths) in zip(goals, (("median", 500), ("P99", 990)), strict=True):
            title = "Cost, fair between tiers 4:2:1" if arm == "tenantry" else arm
            claim = Claim(
                f"tiers.{arm}.{text.lower()}",
                f"{title}: change of {text} E2E from FIFO's",
                unit="%",
                goal=f"{goal} (abstract)" if goal else "",
            )

            def samples(seed: int, arm: str = arm) -> Samples:
                ours, fifo = results.of(run(arm, seed)), results.of(run("FIFO", seed))
                return ours.waits(E2E), fifo.waits(E2E)

            ratio = estimate.ratio(thousandths)
            gauge = Gauge(
                plan.seeds,
                samples,
                lambda a, b, ratio=ratio: 100 * (ratio(a, b) - 1),
                "make bench",
            )
            found.append(judged(claim, gauge))
    return found


GROUP: Final = Group(
    "tiers",
    "DriftSched's orderings",
    "Three tiers (priority 3, 2, 1) that send the same, Azure-like lengths (log-normal "
    "look-alikes), together 1.2 of what an L4 can do by its data sheet (uncalibrated); 600 s, "
    "run until all have ended. The orderings work over all tenants, without "
    "fairness; the last two rows are fair.",
    jobs,
    rows,
)
