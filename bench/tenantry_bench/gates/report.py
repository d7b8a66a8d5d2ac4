"""The table as Markdown, as text, and as a results document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tenantry_bench.gates.claims import MISSED, PRINTED, REACHED
from tenantry_bench.simulator.shares import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenantry_bench.gates.claims import Row
    from tenantry_bench.gates.group import Group
    from tenantry_bench.results import About

HEAD: Final = (
    "gate", "what", "bound", "value", f"{LEVEL:.0%} interval", "n", "each seed", "reach for", "",
)  # fmt: skip
MARKS: Final = {REACHED: "**reached**", MISSED: "**not reached**", PRINTED: "printed"}
TOGETHER: Final = {"x": "x", "%": " %"}


def number(value: float) -> str:
    """Three or four digits that say something."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    for bound, digits in ((0.1, 4), (10, 3), (100, 2), (1000, 1)):
        if abs(value) < bound:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def unit(text: str) -> str:
    """The unit as it stands behind a number."""
    return TOGETHER.get(text, f" {text}" if text else "")


def cells(row: Row) -> list[str]:
    """The row's cells, as HEAD names them."""
    claim, behind = row.claim, unit(row.claim.unit)
    bound = "" if claim.bound is None else f"{claim.op} {number(claim.bound)}{behind}"
    seeds = " ".join(number(value) for _, value in row.seeds)
    interval = "" if row.interval is None else " - ".join(map(number, row.interval))
    return [
        claim.id,
        claim.text,
        bound,
        "" if row.value is None else f"{number(row.value)}{behind}",
        interval if len(row.seeds) > 1 else "",
        f"{row.n:,}" if row.n else "",
        seeds if len(row.seeds) > 1 else "",
        claim.goal,
        row.verdict,
    ]


def text(rows: Sequence[Row]) -> str:
    """The short table for a terminal: gate, bound, value, verdict."""
    lines = []
    for row in rows:
        name, _, bound, value, interval, *_, verdict = cells(row)
        lines.append((name, bound, value, interval, verdict))
    widths = [max(len(line[at]) for line in lines) for at in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def summary(rows: Sequence[Row]) -> str:
    """One sentence: how many gates were reached, missed, and not run."""
    gates = [row for row in rows if row.claim.bound is not None]
    reached = sum(row.reached is True for row in gates)
    missed = sum(row.reached is False for row in gates)
    rest = len(gates) - reached - missed
    more = f", {rest} not run" if rest else ""
    return f"{len(gates)} gates: {reached} reached, {missed} not reached{more}"


def markdown(sections: Sequence[tuple[Group, Sequence[Row]]], about: About, told: str) -> str:
    """The page: what it is, then a table for each group and the commands behind it."""
    rows = [row for _, each in sections for row in each]
    made = (
        f"Simulated, not measured on a GPU. Made by `{about.command}`, Tenantry {about.version}, "
        f"scheduler of vLLM {about.server or 'unknown'}. {told}"
    )
    help_ = "[How to run it, and what every column means](reference/gates.md)."
    lines = ["# Results", "", made, "", f"**{summary(rows)}.** {help_}"]
    for group, each in sections:
        lines += ["", f"## {group.title}", "", group.note, "", *_table(each)]
        lines += ["", *_commands(each)]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for row in rows:
        found = cells(row)
        found[-1] = MARKS.get(found[-1], found[-1])
        lines.append(f"| {' | '.join(found)} |")
    return lines


def _commands(rows: Sequence[Row]) -> list[str]:
    """What shows the same, each command once."""
    shown = dict.fromkeys(row.command for row in rows if row.command)
    return ["Shown by:", "", *(f"- `{each}`" for each in shown)]


def document(rows: Sequence[Row], about: About) -> dict[str, Any]:
    """The results document, with gates and without rows of arms."""
    return {
        "schema": "tenantry.dev/results/v1",
        "command": about.command,
        "version": about.version,
        "simulated": True,
        "engine": {"vllm": about.server},
        "rows": [],
        "gates": [row.document() for row in rows],
    }
