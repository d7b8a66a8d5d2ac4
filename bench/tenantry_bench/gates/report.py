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
TITLE: Final = "## "
INTRODUCTION: Final = """# Results

Simulated with vLLM's own scheduler on a virtual clock, not measured on a GPU. Every section says
how it was made; [how to run it, and what every column means](reference/gates.md).
"""
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
    bound = "" if claim.bound is None else f"{claim.op} {claim.bound:g}{behind}"
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
    """The page's sections: what is measured, how it was made, a table, the commands behind it."""
    made = f"Made by `{about.command}`, Tenantry {about.version}, vLLM {about.server}. {told}"
    parts = []
    for group, rows in sections:
        head = [f"{TITLE}{group.title}", "", f"**{summary(rows)}.** {group.note}", "", made]
        parts.append("\n".join([*head, "", *_table(rows), "", *_commands(rows), ""]))
    return "\n".join(parts)


def merged(page: str, sections: str) -> str:
    """A page with new sections in the place of those with the same title, or behind all others.

    What was not measured again stays as it was: every section says how it was made.
    """
    kept = _split(page)
    kept.update(_split(sections))
    text = "\n".join(kept.values())
    marks = {mark: text.count(f" {mark} |") for mark in MARKS.values()}
    total = (
        f"{marks[MARKS[REACHED]]} gates reached, {marks[MARKS[MISSED]]} not reached, "
        f"{text.count('| not run')} rows not run"
    )
    return f"{INTRODUCTION}\n**{total}.**\n\n{text}"


def _split(page: str) -> dict[str, str]:
    """Sections by their first line."""
    found: dict[str, str] = {}
    for part in f"\n{page}".split(f"\n{TITLE}")[1:]:
        found[part.partition("\n")[0]] = f"{TITLE}{part.rstrip()}\n"
    return found


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
