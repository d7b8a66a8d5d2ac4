"""Pictures of what the gates measured: percentiles and service by arm, and the aging curve."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tenantry_bench.gates import neighbour, order, smoke
from tenantry_bench.gates.evidence import E2E, ITL, TTFT
from tenantry_bench.gates.group import MissingError
from tenantry_bench.picture import DPI
from tenantry_bench.simulator.shares import quantile
from tenantry_core.quantiles import NEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tenantry_bench.gates.evidence import Evidence
    from tenantry_bench.gates.group import Group, Plan, Results

ARMS: Final = ("alone", "stock", "tenantry")
THOUSANDTHS: Final = (500, 900, 950, 990, 999)
WIDTH: Final = 4
"""Seconds that a point of service over time is the mean of."""


def drawn(groups: Sequence[Group], plan: Plan, results: Results) -> Iterator[tuple[str, bytes]]:
    """Draw what the groups have pictures of: name and PNG. What was not run is left out."""
    for group in groups:
        for name, draw in PICTURES.get(group.name, ()):
            try:
                yield name, draw(plan, results)
            except (MissingError, ValueError):
                continue


def _png(columns: int, title: str, draw: Callable[[Any], None]) -> bytes:
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only a picture needs

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(
        1, columns, figsize=(5 * columns, 4.4), squeeze=False, layout="constrained"
    )
    try:
        figure.suptitle(f"{title}\nSimulated, not measured on a GPU", fontsize=12)
        draw(axes[0])
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()
    finally:
        plt.close(figure)


def _neighbour(each: neighbour.Variation) -> Callable[[Plan, Results], bytes]:
    def draw(plan: Plan, results: Results) -> bytes:
        runs = {
            arm: [results.of(neighbour.run(each, arm, seed)) for seed in plan.family]
            for arm in ARMS
        }
        title = f"{each.id}: the quiet tenant, seeds {', '.join(map(str, plan.family))}"
        return _png(4, title, lambda panels: _panels(panels, runs))

    return draw


def _small(plan: Plan, results: Results) -> bytes:
    del plan
    runs = {arm: [results.of(smoke.run(arm))] for arm in ARMS}
    title = f"N1 for {smoke.NEIGHBOUR.duration:g} s: the quiet tenant, seed {smoke.NEIGHBOUR.seed}"
    return _png(4, title, lambda panels: _panels(panels, runs))


def _panels(panels: Any, runs: Mapping[str, Sequence[Evidence]]) -> None:
    """Percentiles of the quiet tenant by arm, seeds pooled, and service over time, first seed."""
    for panel, kind in zip(panels, (TTFT, ITL, E2E), strict=False):
        for arm, found in runs.items():
            pooled = np.concatenate([run.waits(kind, neighbour.QUIET) for run in found])
            carried = [q for q in THOUSANDTHS if len(pooled) >= NEEDS[q]]
            panel.plot(
                [f"P{q / 10:g}" for q in carried],
                [1e3 * quantile(pooled, q) for q in carried],
                marker="o",
                label=arm,
            )
        panel.set_yscale("log")
        panel.set_title(f"{kind.upper()}, ms")
        panel.grid(visible=True, alpha=0.25)
        panel.legend(fontsize=8)
    for arm in ("stock", "tenantry"):
        run = runs[arm][0]
        for tenant, style in ((neighbour.QUIET, "-"), ("flooder", "--")):
            service = run.over_time("service", tenant, WIDTH)
            at = (np.arange(len(service)) + 0.5) * WIDTH
            panels[-1].plot(at, service, style, label=f"{arm}: {tenant}")
    panels[-1].set_title("service a second over time, first seed")
    panels[-1].grid(visible=True, alpha=0.25)
    panels[-1].legend(fontsize=8)


def _aging(name: str) -> Callable[[Plan, Results], bytes]:
    def draw(plan: Plan, results: Results) -> bytes:
        points = order.curve(plan, results, name)

        def panels(found: Any) -> None:
            panel = found[0]
            panel.plot([mean for _, mean, _ in points], [tail for *_, tail in points], "o")
            for title, mean, tail in points:
                panel.annotate(title, (mean, tail), fontsize=8)
            panel.set_xlabel("mean E2E, s")
            panel.set_ylabel("P99 E2E, s")
            panel.grid(visible=True, alpha=0.25)

        return _png(1, f"{name}: Cost by aging, and FIFO", panels)

    return draw


PICTURES: Final = {
    "smoke": (("smoke-N1", _small),),
    "neighbour": tuple((each.id, _neighbour(each)) for each in neighbour.VARIATIONS),
    "order": tuple((f"{name}-aging", _aging(name)) for name in (order.AZURE, order.REASONING)),
}
