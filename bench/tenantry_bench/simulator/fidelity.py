"""How near simulated runs come to real ones: the closed loops of a public benchmark, rerun.

`python -m tenantry_bench.simulator.fidelity DATA` prints the errors. Real runs are medians of two
repetitions with vLLM 0.19.1 and Llama-3.1-8B; of their lengths only means are known.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Final

from tenantry_bench.simulator import measure, runner, sources
from tenantry_bench.simulator.options import Options
from tenantry_bench.simulator.scenario import Length, Scenario, Shape, Tenant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.simulator.profiles import Profile

REQUESTS: Final = 200
EQUAL: Final = "fixed"
"""The workload in which all prompts are the same, so that all but the first are cached."""
FOREVER: Final = 36_000.0


@dataclass(frozen=True, slots=True)
class Compared:
    """A real run and its simulation: medians of time per output token and of whole requests, ms."""

    gpu: str
    workload: str
    concurrency: int
    tpot: tuple[float, float]
    e2e: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float]:
        """Simulated over real, less one: of the time per output token, of whole requests."""
        return self.tpot[1] / self.tpot[0] - 1, self.e2e[1] / self.e2e[0] - 1


def compare(data: Path, gpu: str, *, leave_out: bool = False) -> list[Compared]:
    """Rerun every real run on `gpu` (`a100` or `h100`) with at most 64 requests at once.

    With `leave_out` a workload is judged by a profile that was fitted without it.
    """
    make = {"a100": sources.a100, "h100": sources.h100}[gpu]
    groups: dict[tuple[str, int], list[dict[str, str]]] = {}
    with (data / sources.RUNS).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            count = int(row["concurrency"])
            if row["gpu"] == gpu and count <= sources.CONCURRENCY:
                groups.setdefault((row["workload"], count), []).append(row)
    whole = make(data)
    return [
        _rerun(make(data, workload) if leave_out else whole, gpu, workload, count, rows)
        for (workload, count), rows in sorted(groups.items())
    ]


def _rerun(
    profile: Profile, gpu: str, workload: str, count: int, rows: Sequence[dict[str, str]]
) -> Compared:
    def real(column: str) -> float:
        return mean(float(row[column]) for row in rows)

    scenario = closed(workload, count, real("tokens_in_mean"), real("tokens_out_mean"))
    run = runner.run(scenario, "stock", 1, Options(profile))
    (row, _) = measure.rows([measure.outcome(run)])
    return Compared(
        gpu,
        workload,
        count,
        (real("tpot_p50_ms"), 1000 * (row.tpot.p50 or 0.0)),
        (real("e2e_p50_ms"), 1000 * (row.e2e.p50 or 0.0)),
    )


def closed(workload: str, count: int, prompt: float, output: float) -> Scenario:
    """Return the load of a run: so many requests at once, 200 in all, every one of mean length."""
    kind = Shape(Length(round(prompt), cv=0.0), Length(round(output), cv=0.0))
    shared = (1,) if workload == EQUAL else ()
    tenant = Tenant("all", (kind,), in_flight=count, count=REQUESTS, shared=shared)
    return Scenario(
        f"{workload}-{count}", "", (tenant,), FOREVER, (0.0, FOREVER), drain=True, arms=("stock",)
    )


def means(found: Sequence[Compared]) -> tuple[float, float]:
    """Return the mean absolute errors, of the time per output token and of whole requests."""
    tpot, e2e = zip(*(each.errors for each in found), strict=True)
    return mean(map(abs, tpot)), mean(map(abs, e2e))


def main(argv: Sequence[str]) -> int:
    """Print every run's errors and their means."""
    if len(argv) != 1 or not (Path(argv[0]) / sources.RUNS).is_file():
        print("use: python -m tenantry_bench.simulator.fidelity DATA", file=sys.stderr)  # noqa: T201
        return 2
    for gpu in ("a100", "h100"):
        for leave_out in (False, True):
            found = compare(Path(argv[0]), gpu, leave_out=leave_out)
            print(f"{gpu}, {'judged workload left out of' if leave_out else 'all rows in'} the fit")  # noqa: T201
            for each in found:
                tpot, e2e = each.errors
                print(f"  {each.workload:9} {each.concurrency:3}  {tpot:+6.1%}  {e2e:+6.1%}")  # noqa: T201
            tpot, e2e = means(found)
            print(f"  mean of absolute errors  {tpot:.1%}  {e2e:.1%}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
