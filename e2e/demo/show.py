"""What the demo leaves behind: a table, a sentence, a picture and a document."""

import json
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from e2e import paths
from e2e.demo.arms import ALONE, QUIET, SCENARIO, STOCK, TENANTRY, Pass
from e2e.demo.gates import Judgement, Verdict, p99_ratio, throughput_ratio
from tenantry_bench.load import EVERYBODY
from tenantry_bench.picture import png
from tenantry_bench.results import About, Gate, document
from tenantry_bench.table import Shown, number, render, worst

MODELS = "a 4-million-parameter Llama on real CPU vLLM"


def folder() -> Path:
    return paths.checkout() / "build" / "demo"


def table(measured: Pass) -> str:
    """The table of all arms, P99s also as multiples of the quiet tenant alone."""
    return render(Shown(measured.rows, measured.lags, baseline=ALONE))


def sentence(measured: Pass) -> str:
    """What the table shows, in one sentence."""
    waits = {arm: measured.row(arm, QUIET).ttft.p99 for arm in (STOCK, TENANTRY, ALONE)}
    stock, ours, alone = (f"{number(waits[arm])} ms" for arm in (STOCK, TENANTRY, ALONE))
    less = p99_ratio(measured, "ttft", (STOCK, TENANTRY))
    kept = throughput_ratio(measured)
    return (
        f"Beside a neighbour with 32 long requests in flight, the quiet tenant's P99 time to first "
        f"token is {stock} on stock vLLM and {ours} with Tenantry"
        f"{'' if less is None else f' ({less:.0f} times less)'}; alone it is {alone}"
        f"{'' if kept is None else f', and together they get {kept:.0%} of the tokens'}."
    )


def report(measured: Pass, judgement: Judgement) -> str:
    """Table, sentence and gates; without the sentence where the machine was too busy to tell."""
    said = [] if judgement.verdict is Verdict.BUSY else ["", sentence(measured)]
    return "\n".join(["", table(measured), *said, "", *gate_lines(judgement), ""])


def gate_lines(judgement: Judgement) -> list[str]:
    """One line for each thing that must hold."""
    both = [*judgement.preconditions, *judgement.gates]
    return [f"{'ok  ' if g.reached else 'MISS'} {g.text}: {_value(g)}" for g in both]


def _value(gate: Gate) -> str:
    if gate.value is None:
        return f"unknown, must be {gate.op} {gate.bound:.3g}"
    return f"{gate.value:.3g} ({gate.op} {gate.bound:.3g} {gate.unit})"


def busy(judgement: Judgement) -> str:
    """Which preconditions do not hold."""
    return ", ".join(f"{g.text} is {_value(g)}" for g in judgement.preconditions if not g.reached)


def verdict_line(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.BUSY:
        return f"machine too busy to tell: {busy(judgement)}; run it again on an idle machine"
    if judgement.verdict is Verdict.MISSED:
        return f"missed: {', '.join(g.id for g in judgement.gates if not g.reached)}"
    return "every gate holds"


def write(measured: Pass, judgement: Judgement, command: str) -> tuple[Path, Path]:
    """Write picture and document under `build/demo` and return their paths."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    picture, results = target / "noisy-neighbour.png", target / "results.json"
    drawn = [row for row in measured.rows if row.tenant != EVERYBODY]
    picture.write_bytes(
        png(
            drawn,
            f"A quiet tenant and a noisy neighbour: {MODELS}",
            _caption(measured, judgement),
        )
    )
    about = About(command, metadata.version("tenantry"), measured.version)
    late = max(measured.lags.values(), key=lambda lag: worst(lag) or 0.0)
    both = [*judgement.preconditions, *judgement.gates]
    body = document(about, measured.rows, late, both)
    body["dispatch_lateness"]["arms"] = {arm: asdict(lag) for arm, lag in measured.lags.items()}
    results.write_text(json.dumps(body, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return picture, results


def _caption(measured: Pass, judgement: Judgement) -> str:
    busy = judgement.verdict is Verdict.BUSY
    found = verdict_line(judgement) if busy else sentence(measured)
    return f"{SCENARIO}, seed {measured.seed}. {found}"
