"""The results document (`docs/reference/bench.md`): rows of what each tenant got, and gates.

A row's percentiles are those of its measured requests: the ones whose clock started in the window.
Its tokens are those that arrived in the window, whichever request they belong to, so that tokens
per second do not depend on how long requests are. What HTTP cannot tell is None.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tenantry_bench.client import Outcome
from tenantry_bench.load import EVERYBODY
from tenantry_core.quantiles import Summary, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tenantry_bench.client import Record
    from tenantry_bench.drive import Run

SCHEMA = "tenantry.dev/results/v1"


@dataclass(frozen=True)
class Row:
    """One scenario, arm, seed and tenant. Seconds and tokens; None where it cannot be known.

    `seed` is None in a row that pools several; `loop` is open, closed, mixed or none (of no
    request).
    """

    scenario: str
    arm: str
    seed: int | None
    tenant: str
    loop: str
    window: tuple[float, float]
    arrived: int
    finished: int
    refused: int
    failed: int
    unfinished: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    service: int
    ttft: Summary
    itl: Summary
    e2e: Summary
    tpot: Summary
    queue: Summary | None = None
    gpu_seconds: float | None = None
    late: Mapping[str, float] | None = None
    preemptions: int | None = None
    recomputed_tokens: int | None = None
    kv_blocks_mean: float | None = None
    kv_blocks_max: int | None = None
    measured_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Prompt and output tokens per second of the window."""
        if self.measured_seconds <= 0:
            return None
        return (self.prompt_tokens + self.output_tokens) / self.measured_seconds


@dataclass(frozen=True)
class Gate:
    """A bound that a run must keep; a value that could not be had (None) does not reach it."""

    id: str
    text: str
    op: str
    bound: float
    value: float | None
    unit: str
    reached: bool


@dataclass(frozen=True)
class Measured:
    """Records of one tenant and one run, with that run's window."""

    records: Sequence[Record]
    window: tuple[float, float]

    def of_window(self) -> list[Record]:
        low, high = self.window
        return [record for record in self.records if low <= record.begun < high]


@dataclass
class _Waits:
    """Samples of a quantity: what ended, and what was still open at the end."""

    done: list[float] = field(default_factory=list)
    open: list[float] = field(default_factory=list)

    def summary(self) -> Summary:
        return summarize(self.done, self.open)


def _counted(record: Record) -> bool:
    return record.outcome in (Outcome.FINISHED, Outcome.UNFINISHED)


def _ttft(record: Record, end: float, waits: _Waits) -> None:
    times = record.stream.token_times
    if times:
        waits.done.append(times[0] - record.begun)
    elif record.outcome is Outcome.UNFINISHED:
        waits.open.append(max(0.0, end - record.begun))


def _itl(record: Record, end: float, waits: _Waits) -> None:
    waits.done += record.stream.gaps
    times = record.stream.token_times
    if times and record.outcome is Outcome.UNFINISHED:
        waits.open.append(max(0.0, end - times[-1]))


def _e2e(record: Record, end: float, waits: _Waits) -> None:
    done = record.outcome is Outcome.FINISHED
    (waits.done if done else waits.open).append(max(0.0, end - record.begun))


def _tpot(record: Record, end: float, waits: _Waits) -> None:  # noqa: ARG001 - one shape for all four
    if record.outcome is Outcome.FINISHED and record.stream.time_per_token is not None:
        waits.done.append(record.stream.time_per_token)


MEASURES = {"ttft": _ttft, "itl": _itl, "e2e": _e2e, "tpot": _tpot}


def tokens_in(record: Record, window: tuple[float, float]) -> tuple[int, int]:
    """Return the prompt and output tokens of a request that were served inside `window`.

    A prompt counts when its first token arrives. Where an event carried several tokens, the number
    that the server reports at the end is spread evenly over the events.
    """
    low, high = window
    times = record.stream.token_times
    if not times:
        return 0, 0
    prompt = record.stream.prompt_tokens or record.request.prompt_tokens
    output = record.stream.output_tokens or len(times)
    inside = sum(low <= time < high for time in times)
    return (prompt if low <= times[0] < high else 0), round(output * inside / len(times))


def _cached(records: Iterable[Record]) -> int | None:
    """Return the cached prompt tokens, None unless the server reports them for every request."""
    found = [record.stream.cached_tokens for record in records if record.stream.complete]
    known = [tokens for tokens in found if tokens is not None]
    return sum(known) if known and len(known) == len(found) else None


def _loop(records: Iterable[Record]) -> str:
    loops = {"closed" if record.request.planned is None else "open" for record in records}
    return loops.pop() if len(loops) == 1 else ("mixed" if loops else "none")


@dataclass(frozen=True)
class Label:
    """What a row is about."""

    scenario: str
    arm: str
    seed: int | None
    tenant: str


def row(label: Label, measured: Sequence[Measured]) -> Row:
    """Return one row; several `measured` (seeds) are pooled before a percentile is taken."""
    waits = {name: _Waits() for name in MEASURES}
    arrived: list[Record] = []
    prompt = output = 0
    for part in measured:
        arrived += part.of_window()
        for record in filter(_counted, part.of_window()):
            end = part.window[1] if record.ended is None else record.ended
            for name, measure in MEASURES.items():
                measure(record, end, waits[name])
        served = [tokens_in(record, part.window) for record in part.records]
        prompt += sum(tokens for tokens, _ in served)
        output += sum(tokens for _, tokens in served)
    count = {outcome: sum(r.outcome is outcome for r in arrived) for outcome in Outcome}
    cached = _cached(arrived)
    return Row(
        **asdict(label),
        loop=_loop(arrived),
        window=_hull(part.window for part in measured),
        arrived=len(arrived),
        finished=count[Outcome.FINISHED],
        refused=count[Outcome.REFUSED],
        failed=count[Outcome.FAILED],
        unfinished=count[Outcome.UNFINISHED],
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        service=prompt - (cached or 0) + 2 * output,
        measured_seconds=sum(high - low for low, high in (part.window for part in measured)),
        ttft=waits["ttft"].summary(),
        itl=waits["itl"].summary(),
        e2e=waits["e2e"].summary(),
        tpot=waits["tpot"].summary(),
    )


def _hull(windows: Iterable[tuple[float, float]]) -> tuple[float, float]:
    both = list(windows)
    return (min(low for low, _ in both), max(high for _, high in both))


def tenants_of(run: Run) -> list[str]:
    """Return the tenants in the order of the load, those of a trace in the order they came."""
    named = [tenant.name for tenant in run.plan.load.tenants]
    return list(dict.fromkeys([*named, *(record.tenant for record in run.records)]))


def rows(arm: str, runs: Sequence[Run], *, pooled: bool) -> list[Row]:
    """Return a row for each tenant and one for everybody: for each seed, or all seeds `pooled`."""
    groups = [list(runs)] if pooled and len(runs) > 1 else [[run] for run in runs]
    found = []
    for group in groups:
        seed = group[0].plan.seed if len(group) == 1 else None
        names = list(dict.fromkeys(name for run in group for name in tenants_of(run)))
        for name in [*names, EVERYBODY]:
            parts = [
                Measured([r for r in run.records if name in (r.tenant, EVERYBODY)], run.window)
                for run in group
            ]
            found.append(row(Label(group[0].plan.load.name, arm, seed, name), parts))
    return found


def lateness(runs: Iterable[Run]) -> Summary:
    """Return how late the generator's own timed wake-ups were, over all runs."""
    return summarize(late for run in runs for late in run.lateness)


@dataclass(frozen=True)
class About:
    """The head of a document: what was run, with which version, against what."""

    command: str
    version: str
    server: str | None


def document(
    about: About, found: Sequence[Row], late: Summary, gates: Sequence[Gate] = ()
) -> dict[str, Any]:
    """Return the document, ready for JSON: no NaN, None where a number cannot be known."""
    blank = dict.fromkeys(("max_num_seqs", "max_num_batched_tokens", "block_size", "blocks"))
    return {
        "schema": SCHEMA,
        "command": about.command,
        "version": about.version,
        "simulated": False,
        "profile": None,
        "lengths": None,
        "model": None,
        "engine": {"vllm": about.server, **blank},
        "window": list(_hull(row.window for row in found)) if found else None,
        "rows": [{**asdict(row), "window": list(row.window)} for row in found],
        "gates": [asdict(gate) for gate in gates],
        "dispatch_lateness": asdict(late),
    }


def from_document(body: Mapping[str, Any]) -> tuple[list[Row], Summary]:
    """Return the rows and the generator's lateness of a document that `document` made."""
    return [_row_of(entry) for entry in body["rows"]], Summary(**body["dispatch_lateness"])


def _row_of(entry: Mapping[str, Any]) -> Row:
    values = {f.name: entry[f.name] for f in fields(Row)}
    for name in (*MEASURES, "queue"):
        values[name] = None if values[name] is None else Summary(**values[name])
    values["window"] = tuple(values["window"])
    return Row(**values)
