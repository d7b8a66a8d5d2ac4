"""A scenario as a picture: latency from P50 to P99.9 and service over time, by tenant and arm."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tenantry_bench.load import EVERYBODY
from tenantry_bench.picture import DPI, WRAP, latency, look
from tenantry_bench.simulator.shares import per_second
from tenantry_bench.table import MEASURES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenantry_bench.results import Row
    from tenantry_bench.simulator.measure import Outcome

MOST: Final = 6
"""Tenants that a picture has room for: the first ones."""
POINTS: Final = 60
"""Points of a line over time."""


def png(rows: Sequence[Row], shown: Mapping[str, Outcome], title: str, subtitle: str) -> bytes:
    """Return the picture as PNG bytes. `rows` are pooled, `shown` is one run of each arm."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only a picture needs

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    arms = list(dict.fromkeys(row.arm for row in rows))
    named = list(dict.fromkeys(row.tenant for row in rows if row.tenant != EVERYBODY))
    tenants = named[:MOST]
    figure, grid = plt.subplots(
        len(tenants),
        len(MEASURES) + 1,
        figsize=(16, 1.6 + 3.7 * len(tenants)),
        squeeze=False,
        layout="constrained",
    )
    try:
        more = f" First {MOST} of {len(named)} tenants." if len(named) > MOST else ""
        figure.suptitle(f"{title}\n{textwrap.fill(subtitle + more, WRAP)}", fontsize=13)
        for axes, tenant in zip(grid, tenants, strict=True):
            mine = [row for row in rows if row.tenant == tenant]
            for panel, (name, measure) in zip(axes, MEASURES.items(), strict=False):
                latency(panel, mine, measure, arms)
                panel.set_title(f"{tenant}: {name}")
            _over_time(axes[-1], tenant, shown, arms)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()
    finally:
        plt.close(figure)


def _over_time(panel: Any, tenant: str, shown: Mapping[str, Outcome], arms: Sequence[str]) -> None:
    """Draw the tenant's service a second, one line an arm, one seed."""
    for at, arm in enumerate(arms):
        for each in (one for one in shown[arm].series if tenant in one.tenants):
            column = each.tenants.index(tenant)
            times, service = per_second(each, max(shown[arm].end / POINTS, 1.0))
            if len(times) and np.any(service[:, column]):
                panel.plot(times, service[:, column], label=arm, color=look(at)["color"])
    seeds = sorted({each.seed for each in shown.values()})
    panel.set_title(f"{tenant}: service over time (seed {seeds[0]})")
    panel.set_ylabel("prompt + 2 x output tokens per second")
    panel.set_xlabel("seconds")
    panel.set_ylim(bottom=0)
    panel.grid(visible=True, alpha=0.25)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=8, loc="best")
