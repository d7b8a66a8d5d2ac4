"""Rows as a picture: latency from P50 to P99.9 for each tenant and arm, and tokens per second."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

from tenantry_bench.load import EVERYBODY
from tenantry_bench.table import MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.results import Row

PERCENTILES = {"P50": "p50", "P90": "p90", "P95": "p95", "P99": "p99", "P99.9": "p999"}
COLOURS = ("#c0392b", "#1f77b4", "#7f8c8d", "#e08e0b", "#2e8b57", "#6c3483")
MARKERS = ("o", "s", "^", "D", "v", "P")
DPI = 120
WRAP = 140
DECADE = 10.0
"""Below this range a log axis has too few round numbers and labels those between as well."""


def png(rows: Sequence[Row], title: str, subtitle: str = "") -> bytes:
    """Return the picture as PNG bytes."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only a picture needs

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    tenants = list(dict.fromkeys(row.tenant for row in rows if row.tenant != EVERYBODY))
    arms = list(dict.fromkeys(row.arm for row in rows))
    figure, grid = plt.subplots(
        len(tenants),
        len(MEASURES) + 1,
        figsize=(16, 1.4 + 3.7 * len(tenants)),
        squeeze=False,
        layout="constrained",
    )
    try:
        wrapped = textwrap.fill(subtitle, WRAP)
        figure.suptitle(f"{title}\n{wrapped}" if subtitle else title, fontsize=13)
        for axes, tenant in zip(grid, tenants, strict=True):
            mine = [row for row in rows if row.tenant == tenant]
            for panel, (name, measure) in zip(axes, MEASURES.items(), strict=False):
                latency(panel, mine, measure, arms)
                panel.set_title(f"{tenant}: {name}")
            _throughput(axes[-1], mine, arms)
            axes[-1].set_title(f"{tenant}: tokens served")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()
    finally:
        plt.close(figure)


def latency(panel: Any, rows: Sequence[Row], measure: str, arms: Sequence[str]) -> None:
    """Draw one line an arm; a percentile that the samples cannot carry has no point."""
    drawn = False
    for row in rows:
        summary = getattr(row, measure)
        points = [(i, getattr(summary, field)) for i, field in enumerate(PERCENTILES.values())]
        shown = [(i, value * 1000) for i, value in points if value]
        if shown:
            at = arms.index(row.arm)
            panel.plot(*zip(*shown, strict=True), label=row.arm, **look(at), linewidth=2)
            panel.annotate(
                f"{shown[-1][1]:,.0f}",
                shown[-1],
                xytext=(5, 3),
                textcoords="offset points",
                fontsize=8,
                color=COLOURS[at % len(COLOURS)],
            )
            drawn = True
    panel.set_xticks(range(len(PERCENTILES)), list(PERCENTILES))
    panel.set_xlim(-0.3, len(PERCENTILES) - 0.3)
    panel.set_ylabel("ms (log scale)")
    panel.grid(visible=True, which="both", alpha=0.25)
    if drawn:
        panel.set_yscale("log")
        low, high = panel.get_ylim()
        panel.yaxis.set_major_formatter(_tick)
        panel.yaxis.set_minor_formatter(_tick if high / low < DECADE else lambda *_: "")
        panel.legend(fontsize=8, loc="best")


def _tick(value: float, _position: object) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def look(at: int) -> dict[str, str]:
    """Return the colour and marker of the n-th arm."""
    return {"color": COLOURS[at % len(COLOURS)], "marker": MARKERS[at % len(MARKERS)]}


def _throughput(panel: Any, rows: Sequence[Row], arms: Sequence[str]) -> None:
    """Draw one bar an arm, prompt tokens under output tokens."""
    names = [row.arm for row in rows]
    seconds = [row.measured_seconds or 1.0 for row in rows]
    prompt = [row.prompt_tokens / s for row, s in zip(rows, seconds, strict=True)]
    output = [row.output_tokens / s for row, s in zip(rows, seconds, strict=True)]
    colours = [COLOURS[arms.index(name) % len(COLOURS)] for name in names]
    panel.bar(names, prompt, color=colours, alpha=0.55, label="prompt")
    panel.bar(names, output, bottom=prompt, color=colours, hatch="//", label="output (hatched)")
    for at, (p, o) in enumerate(zip(prompt, output, strict=True)):
        panel.annotate(f"{p + o:,.0f}", (at, p + o), ha="center", va="bottom", fontsize=9)
    panel.set_ylabel("prompt + output (hatched) tokens per second")
    panel.yaxis.set_major_formatter(_tick)
    panel.margins(y=0.15)
    panel.grid(visible=True, axis="y", alpha=0.25)
