"""From what happened to numbers: samples by tenant, rows, shares over time.

Requests are measured that arrive in the scenario's window; tokens and GPU time are those of steps
that end in it. A request that has not ended counts with its wait so far.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tenantry_bench.load import EVERYBODY
from tenantry_bench.results import Label, Row
from tenantry_bench.simulator.shares import Series, series
from tenantry_core.quantiles import Summary, summarize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenantry_bench.simulator.record import Log, Record
    from tenantry_bench.simulator.runner import Run
    from tenantry_bench.simulator.scenario import Scenario

LATE: tuple[float, ...] = (0.1, 0.25, 1.0)
"""Seconds after the tenant alone on its share, from which on a token is late."""


@dataclass
class Waits:
    """Samples of a quantity: what ended, and waits that were still open at the end.

    In arrays: a run has half a million of them, and many runs are kept until they are pooled.
    """

    done: array[float] = field(default_factory=lambda: array("d"))
    open: array[float] = field(default_factory=lambda: array("d"))

    def add(self, other: Waits) -> None:
        """Pool with another run's."""
        self.done += other.done
        self.open += other.open

    def summary(self) -> Summary:
        """Percentiles of both."""
        return summarize(self.done, self.open)


@dataclass
class Sample:
    """One tenant in one run, or pooled over several. Tokens, seconds."""

    loop: str = "none"
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    gpu_seconds: float = 0.0
    blocks: Counter[tuple[int, float]] = field(default_factory=Counter)
    """KV blocks held by seed and moment, so that tenants add up and seeds do not."""
    ttft: Waits = field(default_factory=Waits)
    itl: Waits = field(default_factory=Waits)
    e2e: Waits = field(default_factory=Waits)
    tpot: Waits = field(default_factory=Waits)
    queue: Waits = field(default_factory=Waits)
    late: Counter[float] = field(default_factory=Counter)
    due: int = 0

    def add(self, other: Sample) -> None:
        """Pool with another run's, or another tenant's."""
        self.loop = other.loop if self.loop in ("none", other.loop) else "mixed"
        self.seconds += other.seconds
        self.counts += other.counts
        self.gpu_seconds += other.gpu_seconds
        self.blocks.update(other.blocks)
        self.late += other.late
        self.due += other.due
        for name in ("ttft", "itl", "e2e", "tpot", "queue"):
            getattr(self, name).add(getattr(other, name))

    @property
    def service(self) -> int:
        """Prompt tokens done for the first time, and twice the output tokens."""
        return self.counts["prompt"] + 2 * self.counts["output"]


@dataclass(frozen=True)
class Outcome:
    """All that is kept of a run: samples by tenant, what each engine gave to whom over time, and
    when the tokens of each measured request came (its tenant, when it was due, token times).

    It holds plain numbers only, so that it can go from one process to another.
    """

    scenario: Scenario
    arm: str
    seed: int
    end: float
    idle_turns: int
    samples: Mapping[str, Sample]
    series: Sequence[Series]
    tokens: Mapping[str, tuple[str, float, Sequence[float]]]

    @property
    def window(self) -> tuple[float, float]:
        """What rows are about, in seconds."""
        return _window(self.scenario, self.end)


def outcome(run: Run, dedicated: Outcome | None = None) -> Outcome:
    """Return what a run was; lateness where the same seed's `dedicated` arm is given."""
    return judged(run.scenario, run.arm, run.seed, run.logs, dedicated)


def judged(
    scenario: Scenario,
    arm: str,
    seed: int,
    logs: Sequence[Log],
    dedicated: Outcome | None = None,
) -> Outcome:
    """Return what the logs of an arm's engines say."""
    loops = {tenant.name: tenant.loop for tenant in scenario.tenants}
    end = max(log.end for log in logs)
    window = _window(scenario, end)
    found: dict[str, Sample] = {}
    tokens: dict[str, tuple[str, float, Sequence[float]]] = {}
    for log in logs:
        present = {record.tenant for record in log.records.values()}
        for index in sorted(present):
            name = log.tenants[index]
            found[name] = Sample(loop=loops.get(name, "open"))
            _tokens(found[name], log, index, window)
            found[name].blocks = Counter(
                {(seed, at): held[index] for at, held in log.blocks if _within(at, window)}
            )
        for name, record in log.records.items():
            if _within(record.body.t, scenario.window):
                sample = found[log.tenants[record.tenant]]
                tokens[name] = (log.tenants[record.tenant], record.body.t, record.times)
                _times(sample, record, log.end)
                if dedicated is not None and not record.refused:
                    _lateness(sample, record, dedicated.tokens.get(name))
    return Outcome(
        scenario=scenario,
        arm=arm,
        seed=seed,
        end=end,
        idle_turns=sum(log.idle_turns for log in logs),
        samples={name: found[name] for name in scenario.names if name in found},
        series=[series(log) for log in logs],
        tokens=tokens,
    )


def _window(scenario: Scenario, end: float) -> tuple[float, float]:
    low, high = scenario.window
    return (low, end) if scenario.drain else (low, high)


def _within(at: float, window: tuple[float, float]) -> bool:
    return window[0] <= at < window[1]


def _tokens(sample: Sample, log: Log, index: int, window: tuple[float, float]) -> None:
    low, high = window
    sample.seconds = high - low
    counts = sample.counts
    for line in log.lines:
        if low <= line.end <= high:
            counts["prompt"] += line.prompt[index]
            counts["output"] += line.output[index]
            sample.gpu_seconds += line.gpu[index]
    counts["preemptions"] += sum(t == index and low <= at <= high for at, t in log.preemptions)
    for name, events in (("recomputed", log.recomputed), ("cached", log.cached)):
        counts[name] += sum(n for at, tenant, n in events if tenant == index and low <= at <= high)


def _times(sample: Sample, record: Record, end: float) -> None:
    """Add the waits of one measured request. They begin when it was due."""
    counts, begun, times = sample.counts, record.body.t, record.times
    counts["arrived"] += 1
    if record.refused:
        counts["refused"] += 1
        return
    gone = record.ended is not None and not record.finished
    counts["finished" if record.finished else "failed" if gone else "unfinished"] += 1
    if gone:
        return
    if record.first is None:
        sample.queue.open.append(max(end - begun, 0.0))
    else:
        sample.queue.done.append(record.first - begun)
    if times:
        sample.ttft.done.append(times[0] - begun)
        sample.itl.done.extend(b - a for a, b in pairwise(times))
    else:
        sample.ttft.open.append(max(end - begun, 0.0))
    if record.ended is not None:
        sample.e2e.done.append(record.ended - begun)
        if len(times) > 1:
            sample.tpot.done.append((times[-1] - times[0]) / (len(times) - 1))
    else:
        sample.e2e.open.append(max(end - begun, 0.0))
        if times:
            sample.itl.open.append(max(end - times[-1], 0.0))


def _lateness(
    sample: Sample, record: Record, alone: tuple[str, float, Sequence[float]] | None
) -> None:
    """Count tokens by how long after the tenant alone on its share they came; never is late too.

    What the tenant alone has not produced either is not due. A closed loop sends at other times
    there: its waits are compared from the moment of sending.
    """
    if alone is None:
        return
    _, begun, times = alone
    sample.due += len(times)
    for bound in LATE:
        limit = bound + record.body.t - begun
        on_time = sum(a - b <= limit for a, b in zip(record.times, times, strict=False))
        sample.late[bound] += len(times) - on_time


def pooled(parts: Sequence[Outcome]) -> dict[str, Sample]:
    """Return one sample for each tenant, over several seeds."""
    found: dict[str, Sample] = {}
    for part in parts:
        for name, sample in part.samples.items():
            found.setdefault(name, Sample()).add(sample)
    return found


def rows(parts: Sequence[Outcome]) -> list[Row]:
    """Return a row for each tenant and one for everybody, of one seed or of several pooled."""
    first = parts[0]
    found = pooled(parts)
    everybody = Sample()
    for sample in found.values():
        everybody.add(sample)
    everybody.seconds = max((sample.seconds for sample in found.values()), default=0.0)
    seed = first.seed if len(parts) == 1 else None
    window = (min(p.window[0] for p in parts), max(p.window[1] for p in parts))
    label = Label(first.scenario.name, first.arm, seed, "")
    return [
        row(replace(label, tenant=name), sample, window)
        for name, sample in [*found.items(), (EVERYBODY, everybody)]
    ]


def row(label: Label, sample: Sample, window: tuple[float, float]) -> Row:
    """Return the row of a sample."""
    counts, blocks = sample.counts, sample.blocks.values()
    return Row(
        **asdict(label),
        loop=sample.loop,
        window=window,
        arrived=counts["arrived"],
        finished=counts["finished"],
        refused=counts["refused"],
        failed=counts["failed"],
        unfinished=counts["unfinished"],
        prompt_tokens=counts["prompt"],
        output_tokens=counts["output"],
        cached_tokens=counts["cached"],
        service=sample.service,
        ttft=sample.ttft.summary(),
        itl=sample.itl.summary(),
        e2e=sample.e2e.summary(),
        tpot=sample.tpot.summary(),
        queue=sample.queue.summary(),
        gpu_seconds=sample.gpu_seconds,
        late=_late(sample),
        preemptions=counts["preemptions"],
        recomputed_tokens=counts["recomputed"],
        kv_blocks_mean=sum(blocks) / len(blocks) if blocks else None,
        kv_blocks_max=max(blocks, default=None),
        measured_seconds=sample.seconds,
    )


def _late(sample: Sample) -> dict[str, float] | None:
    if not sample.due:
        return None
    return {f"{bound:g}": sample.late[bound] / sample.due for bound in LATE}
