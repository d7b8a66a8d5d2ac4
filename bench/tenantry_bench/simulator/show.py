"""Simulated rows as a text table: one line for each tenant, arm and measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenantry_bench.load import EVERYBODY
from tenantry_bench.simulator.contest import APART, STOCK
from tenantry_bench.table import MEASURES, Shown, aligned, inflation, number, percentile
from tenantry_core.quantiles import METHOD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.results import Row
    from tenantry_core.quantiles import Summary

HEAD: Final = ("tenant", "arm", "loop", "ms", "n", "mean", "P50", "P90", "P99", "P99.9")
TOTALS: Final = ("service/s", "x stock", "GPU s", "late>1s", "preempted", "redone", "refused")
CUT: Final = "cut off"


def render(rows: Sequence[Row]) -> str:
    """Return the table of one scenario, without notes."""
    arms = {row.arm for row in rows}
    baseline = next((arm for arm in APART if arm in arms), None)
    shown = Shown(rows, {}, baseline)
    lines = [
        _line(row, title, shown)
        for row in _sorted(rows)
        for title in MEASURES
        if row.tenant != EVERYBODY or title == "TTFT"
    ]
    return "\n".join(aligned([*HEAD, f"x {baseline or APART[0]}", *TOTALS, CUT], lines))


def _sorted(rows: Sequence[Row]) -> list[Row]:
    tenants = list(dict.fromkeys(row.tenant for row in rows))
    return sorted(rows, key=lambda row: tenants.index(row.tenant))


def _line(row: Row, title: str, shown: Shown) -> list[str]:
    summary: Summary = getattr(row, MEASURES[title])
    ratio = inflation(row, MEASURES[title], shown)
    cells = [
        *((row.tenant, row.arm, row.loop) if title == "TTFT" else ("", "", "")),
        title,
        f"{summary.n:,}",
        number(summary.mean, lower_bound=summary.censored > 0),
        *(percentile(summary, q) for q in (500, 900, 990, 999)),
        "-" if ratio is None else f"{ratio:.2f}x",
    ]
    return [*cells, *(_totals(row, shown) if title == "TTFT" else [""] * (len(TOTALS) + 1))]


def _totals(row: Row, shown: Shown) -> list[str]:
    stock = next((r for r in shown.rows if (r.arm, r.tenant) == (STOCK, row.tenant)), None)
    late = (row.late or {}).get("1")
    return [
        f"{row.service / row.measured_seconds:,.0f}" if row.measured_seconds else "-",
        f"{speed(row) / speed(stock):.3f}" if stock and speed(stock) else "-",
        "-" if row.gpu_seconds is None else f"{row.gpu_seconds:.1f}",
        "-" if late is None else f"{late:.2%}",
        f"{row.preemptions or 0:,}",
        f"{row.recomputed_tokens or 0:,}",
        f"{row.refused:,}",
        f"{row.unfinished:,}",
    ]


def speed(row: Row) -> float:
    """Service per second of the window."""
    return row.service / row.measured_seconds if row.measured_seconds else 0.0


def notes(rows: Sequence[Row], *, sentence: str) -> list[str]:
    """Return what a reader must know to read the numbers."""
    found = [
        f"SIMULATED: {sentence}",
        f"Percentiles by {METHOD}, times in ms, from the planned arrival.",
        "Service is prompt tokens done for the first time and twice the output tokens.",
    ]
    if any(row.unfinished for row in rows):
        found.append("Cut-off requests count with their wait so far: >= marks lower bounds.")
    if any(row.arm in APART for row in rows):
        found.append("alone and dedicated: every tenant has an engine of its own; * is their sum.")
    return found
