"""How near the simulator comes to measured runs of vLLM, and to those left out of the fit."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tenantry_bench.errors import BadInputError
from tenantry_bench.gates.claims import Claim, Row
from tenantry_bench.gates.group import Group, MissingError, measured, without_data
from tenantry_bench.gates.jobs import Closed
from tenantry_bench.simulator import fit, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tenantry_bench.gates.group import Plan, Results

PROFILES: Final = {"a100": "a100-llama3-8b", "h100": "h100-llama3-8b"}
MIXED: Final = ((785, 512),) * 3 + ((3089, 512),) * 4 + ((6161, 512),) * 2 + ((12_305, 512),)
"""Prompts and outputs of the workload `mixed`: its four prompt sizes in the parts that give its
mean. The data has means only."""
PEAK: Final = 4 * 32 * 4096 / (312.0 * 1e12) * 1e12
"""Picoseconds for a token squared of prompt attention at an A100's peak arithmetic, for a fit that
has seen no long prompt."""
BOUNDS: Final = {
    ("a100", False): (4.0, 6.0, "2", "4"),
    ("a100", True): (6.0, 9.0, "", ""),
    ("h100", False): (None, None, "8", "10"),
}
COLUMNS: Final = (
    "gpu", "workload", "concurrency", "tokens_in_mean", "tokens_out_mean", "tpot_p50_ms",
    "e2e_p50_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A workload at a concurrency: its measured runs as (TPOT, E2E) medians in milliseconds."""

    gpu: str
    workload: str
    concurrency: int
    tokens: tuple[float, float]
    runs: tuple[tuple[float, float], ...]


@lru_cache
def points(data: str) -> tuple[Point, ...]:
    """Return what was measured with at most 64 at once. Raises BadInputError."""
    path = Path(data) / sources.RUNS
    found: defaultdict[tuple[str, str, int], list[Mapping[str, str]]] = defaultdict(list)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                count = int(row["concurrency"])
                if count <= sources.CONCURRENCY and row["gpu"] in PROFILES:
                    found[row["gpu"], row["workload"], count].append(row)
        return tuple(_point(key, rows) for key, rows in sorted(found.items()))
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError) as error:
        wanted = ", ".join(COLUMNS)
        raise BadInputError(
            f"--data: {path}: {error}; a file with columns {wanted} is read there"
        ) from error


def _point(key: tuple[str, str, int], rows: Sequence[Mapping[str, str]]) -> Point:
    return Point(
        *key,
        tokens=(_mean(rows, "tokens_in_mean"), _mean(rows, "tokens_out_mean")),
        runs=tuple((float(r["tpot_p50_ms"]), float(r["e2e_p50_ms"])) for r in rows),
    )


def _mean(rows: Sequence[Mapping[str, str]], name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)


def prices(data: str, left_out: str) -> tuple[float, float, float, float]:
    """Return an A100's prices by the fit without a workload: its prompts are those of `mixed`."""
    folder = Path(data)
    growth = sources.vidur(folder)
    steps = [
        fit.Decode(p.concurrency, p.concurrency * (p.tokens[0] + p.tokens[1] / 2), tpot)
        for p in points(data)
        if p.gpu == "a100" and p.workload not in ("mixed", left_out)
        for tpot, _ in p.runs
    ]
    found = fit.decode(steps, fit.between(growth))
    attention = PEAK
    if left_out != "mixed":
        table = fit.dense(growth, found.base_ms)
        prompts = sources.PROMPTS["a100"]
        attention = fit.first_tokens(prompts, fit.between(table), 2048) * 1e9
    return found.base_ms, found.sequence_ms * 1e3, found.context_ms * 1e6, attention


def job(data: str, point: Point, *, apart: bool) -> Closed:
    """Return the job that imitates a point, with the profile or with a fit that left it out."""
    whole = (max(round(point.tokens[0]), 1), max(round(point.tokens[1]), 1))
    return Closed(
        PROFILES[point.gpu],
        point.workload,
        point.concurrency,
        MIXED if point.workload == "mixed" else (whole,),
        same=point.workload == "fixed",
        prices=prices(data, point.workload) if apart else None,
    )


def jobs(plan: Plan) -> list[Closed]:
    """A run for every point, on the A100 a second one with the point's workload left out."""
    if not plan.data:
        return []
    found = [job(plan.data, point, apart=False) for point in points(plan.data)]
    a100 = [point for point in points(plan.data) if point.gpu == "a100"]
    return [*found, *(job(plan.data, point, apart=True) for point in a100)]


def _claims(gpu: str, *, apart: bool) -> list[Claim]:
    tpot, e2e, goal, other = BOUNDS[gpu, apart]
    name = f"{gpu.upper()}, {'workload left out of the fit' if apart else 'all rows'}"
    slug = f"fidelity.{gpu}{'.apart' if apart else ''}"
    return [
        Claim(f"{slug}.tpot", f"{name}: TPOT P50, mean error", "<=", tpot, "%", goal),
        Claim(f"{slug}.e2e", f"{name}: E2E P50, mean error", "<=", e2e, "%", other),
    ]


def rows(plan: Plan, results: Results) -> list[Row]:
    """Mean absolute errors over measured rows, and over those of each workload."""
    found = []
    for gpu, apart in BOUNDS:
        claims = _claims(gpu, apart=apart)
        if not plan.data:
            found += without_data(claims, "make bench DATA=DIR")
            continue
        chosen = [point for point in points(plan.data) if point.gpu == gpu]
        for at, claim in enumerate(claims):
            found.append(_row(plan, results, claim, chosen, (at, apart)))
            found += [
                _row(plan, results, each, part, (at, apart)) for each, part in _parts(claim, chosen)
            ]
    return found


def _parts(claim: Claim, chosen: Sequence[Point]) -> list[tuple[Claim, list[Point]]]:
    """The same for each workload, printed."""
    found = []
    for name in sorted({point.workload for point in chosen}):
        text = claim.text.replace(": ", f", {name}: ", 1)
        part = [point for point in chosen if point.workload == name]
        found.append((Claim(f"{claim.id}.{name}", text, unit="%"), part))
    return found


def _row(
    plan: Plan, results: Results, claim: Claim, chosen: Sequence[Point], what: tuple[int, bool]
) -> Row:
    at, apart = what
    errors = _errors(plan, results, chosen, at, apart=apart)
    count = sum(len(point.runs) for point in chosen)
    return measured(claim, "make bench DATA=DIR", errors, count)


def _errors(
    plan: Plan, results: Results, chosen: Sequence[Point], at: int, *, apart: bool
) -> Callable[[], float]:
    def mean() -> float:
        found = []
        for point in chosen:
            body = results.body(job(plan.data, point, apart=apart))
            ours = float(body[("tpot_ms", "e2e_ms")[at]])
            found += [abs(ours / run[at] - 1) for run in point.runs]
        if not found:
            raise MissingError("not run: no such rows in the data")
        return 100 * sum(found) / len(found)

    return mean


GROUP: Final = Group(
    "fidelity",
    "The simulator against measured runs",
    "vLLM 0.19.1 with Llama-3.1-8B, closed loops of 200 requests with 1 to 64 at once "
    "(coconut-labs/kvwarden); stock scheduler, no noise taken out. Errors are of medians, averaged "
    "over measured runs. With `mixed` left out, prompt attention is by peak arithmetic; its prompt "
    "sizes are inferred from means, and the factor of mixed steps was chosen on these runs.",
    jobs,
    rows,
    data=True,
)
