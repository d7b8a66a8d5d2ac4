"""How near the simulator comes to measured runs of vLLM, and to those left out of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.group import Group, MissingError, measured, without_data
from tenantry_bench.gates.jobs import Fidelity

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.gates.group import Plan, Results

BOUNDS: Final = {
    ("a100", False): (4.0, 6.0, "2", "4"),
    ("a100", True): (6.0, 9.0, "", ""),
    ("h100", False): (None, None, "8", "10"),
    ("h100", True): (None, None, "", ""),
}
"""By GPU, and whether the judged workload was left out of the fit: bounds and goals in per cent, of
the time per output token and of whole requests."""
MEASURES: Final = (("tpot", "TPOT P50, mean error"), ("e2e", "E2E P50, mean error"))
COMMAND: Final = "python -m tenantry_bench.simulator.fidelity DIR"


def jobs(plan: Plan) -> list[Fidelity]:
    """All runs of a GPU are one job; none without data."""
    return [Fidelity(gpu, plan.data, apart) for gpu, apart in BOUNDS] if plan.data else []


def rows(plan: Plan, results: Results) -> list[Row]:
    """Mean absolute errors over all runs, and over those of each workload."""
    return [row for gpu, apart in BOUNDS for row in _pair(plan, results, gpu, apart=apart)]


def _pair(plan: Plan, results: Results, gpu: str, *, apart: bool) -> list[Row]:
    *bounds, first, second = BOUNDS[gpu, apart]
    name = f"{gpu.upper()}, {'workload left out of the fit' if apart else 'all rows'}"
    slug = f"fidelity.{gpu}{'.apart' * apart}"
    claims = [
        Claim(f"{slug}.{kind}", f"{name}: {text}", "<=", bound, "%", goal)
        for (kind, text), bound, goal in zip(MEASURES, bounds, (first, second), strict=True)
    ]
    if not plan.data:
        return without_data(claims, COMMAND)
    job, found = Fidelity(gpu, plan.data, apart), []
    for claim, (kind, _) in zip(claims, MEASURES, strict=True):
        found += _rows(results, claim, job, kind)
    return found


def _rows(results: Results, claim: Claim, job: Fidelity, kind: str) -> list[Row]:
    try:
        compared = results.body(job)["compared"]
    except MissingError as error:
        return [Row(claim, lacking=str(error), command=COMMAND)]
    found = [measured(claim, COMMAND, _error(compared, kind), len(compared))]
    for name in sorted({each["workload"] for each in compared}):
        part = [each for each in compared if each["workload"] == name]
        text = claim.text.replace(": ", f", {name}: ", 1)
        each = Claim(f"{claim.id}.{name}", text, unit="%")
        found.append(measured(each, COMMAND, _error(part, kind), len(part)))
    return found


def _error(compared: list[dict[str, Any]], kind: str) -> Callable[[], float]:
    """The mean of |simulated / real - 1|, in per cent."""
    errors = [abs(each[kind][1] / each[kind][0] - 1) for each in compared]
    return lambda: 100 * sum(errors) / len(errors)


GROUP: Final = Group(
    "fidelity",
    "The simulator against measured runs",
    "vLLM 0.19.1 with Llama-3.1-8B, closed loops of 200 requests with 1 to 64 at once "
    "(coconut-labs/kvwarden); stock scheduler. Of the measured lengths only means are known. "
    "Errors are of medians, averaged over rows. The workload `mixed` is never in the fit "
    "of decodes; the factor of mixed steps and prompt attention are from the same runs.",
    jobs,
    rows,
    data=True,
)
