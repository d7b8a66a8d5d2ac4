"""Rows as a text table: one line for each tenant, arm and measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenantry_bench.load import EVERYBODY
from tenantry_core.quantiles import METHOD, NEEDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenantry_bench.results import Row
    from tenantry_core.quantiles import Summary

LAG_FLAGGED = 0.010
"""Generator lag P99 in seconds above which a tail is to be read with care."""

HEAD = ("tenant", "arm", "loop", "ms", "n", "P50", "P90", "P99", "P99.9", "max")
ALONE = "x alone"
TOTALS = ("tokens/s", "tokens", "finished", "refused", "failed", "cut off", "lag P99")
MEASURES = {"TTFT": "ttft", "ITL": "itl", "E2E": "e2e"}
LEFT = 4
"""So many columns are words and stand to the left."""


@dataclass(frozen=True)
class Shown:
    """What a table is made of; `baseline` is the arm that P99s are divided by.

    `lags` is the generator's own lateness on each arm.
    """

    rows: Sequence[Row]
    lags: Mapping[str, Summary]
    baseline: str | None = None


def number(seconds: float | None, *, lower_bound: bool = False) -> str:
    """Return seconds as milliseconds with three figures or whole."""
    if seconds is None:
        return "-"
    ms = seconds * 1000
    text = f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
    return f">={text}" if lower_bound else text


def percentile(summary: Summary, thousandths: int) -> str:
    """Return one percentile; an unfinished wait in the tail makes it a lower bound."""
    values = {500: summary.p50, 900: summary.p90, 990: summary.p99, 999: summary.p999}
    if 0 < summary.n < NEEDS[thousandths]:
        return "n too small"
    return number(values[thousandths], lower_bound=_bounded(summary, thousandths))


def _bounded(summary: Summary, thousandths: int) -> bool:
    """Whether unfinished waits are so many that this percentile may lie above what is shown."""
    return summary.censored * 1000 > summary.n * (1000 - thousandths) or (
        summary.censored > 0 and thousandths >= 990
    )


def inflation(row: Row, measure: str, shown: Shown) -> float | None:
    """Return the row's P99 over that of the same tenant in the baseline arm."""
    for other in shown.rows:
        if (other.tenant, other.arm) == (row.tenant, shown.baseline):
            below = getattr(other, measure).p99
            above = getattr(row, measure).p99
            return above / below if above is not None and below else None
    return None


def _line(row: Row, title: str, shown: Shown) -> list[str]:
    measure = MEASURES[title]
    summary: Summary = getattr(row, measure)
    cells = [
        *((row.tenant, row.arm, row.loop) if title == "TTFT" else ("", "", "")),
        title,
        f"{summary.n:,}",
        *(percentile(summary, q) for q in (500, 900, 990, 999)),
        number(summary.max, lower_bound=summary.censored > 0),
    ]
    if shown.baseline is not None:
        ratio = inflation(row, measure, shown)
        cells.append("-" if ratio is None else f"{ratio:.1f}x")
    if title != "TTFT":
        return [*cells, *[""] * len(TOTALS)]
    speed = row.tokens_per_second
    counts = (row.prompt_tokens + row.output_tokens, row.finished, row.refused, row.failed)
    return [
        *cells,
        "-" if speed is None else f"{speed:,.0f}",
        *(f"{count:,}" for count in (*counts, row.unfinished)),
        _lag(shown.lags.get(row.arm)),
    ]


def render(shown: Shown) -> str:
    """Return the table with its notes, ready to print."""
    head = [*HEAD, *(() if shown.baseline is None else (ALONE,)), *TOTALS]
    lines = [
        _line(row, title, shown)
        for row in shown.rows
        for title in MEASURES
        if row.tenant != EVERYBODY or title == "TTFT"
    ]
    return "\n".join([*aligned(head, lines), "", *notes(shown)])


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines with equal column widths, words to the left and numbers to the right."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    out = []
    for line in [head, ["-" * width for width in widths], *lines]:
        cells = [
            cell.ljust(width) if i < LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append("  ".join(cells).rstrip())
    return out


def notes(shown: Shown) -> list[str]:
    """Return what a reader must know to read the numbers."""
    low, high = shown.rows[0].window if shown.rows else (0.0, 0.0)
    found = [
        f"Percentiles by {METHOD}; times in ms; measured from {low:g} s to {high:.1f} s of a run.",
        "An open loop counts from the planned time; a closed loop waits with the server.",
    ]
    if any(row.unfinished for row in shown.rows):
        found.append("Cut-off requests count with their wait so far: >= marks lower bounds.")
    flagged = [arm for arm, lag in shown.lags.items() if late(lag)]
    if flagged:
        found.append(
            f"! The load generator itself was late by more than {LAG_FLAGGED * 1000:g} ms at P99 "
            f"({', '.join(flagged)}): the machine is busy, read the tails with care."
        )
    return found


def worst(lag: Summary) -> float | None:
    """Return the lateness to judge by: P99, or the maximum where there are too few wake-ups."""
    return lag.max if lag.p99 is None else lag.p99


def late(lag: Summary) -> bool:
    """Whether the generator was so late that its own delay may show in the tail."""
    value = worst(lag)
    return value is not None and value > LAG_FLAGGED


def _lag(lag: Summary | None) -> str:
    if lag is None:
        return "-"
    return f"{number(worst(lag))}{' !' if late(lag) else ''}"
