"""What a group of gates is: the runs that it needs, and the rows that it makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenantry_bench.gates import estimate
from tenantry_bench.gates.claims import NO_DATA, NOTHING, Claim, Row
from tenantry_bench.gates.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tenantry_bench.gates.estimate import Samples, Statistic
    from tenantry_bench.gates.jobs import Job, Simulation

SEEDS: Final = (11, 12, 13)
FAMILY: Final = tuple(range(11, 21))


class MissingError(Exception):
    """A run that a row needs was not done. The text is the row's verdict."""


@dataclass(frozen=True)
class Plan:
    """What a table is made with: seeds, those of the N1 family, the folder of public data (empty:
    none), and the factor within which bounds still hold.
    """

    seeds: tuple[int, ...] = SEEDS
    family: tuple[int, ...] = FAMILY
    data: str = ""
    slack: float = 1.0


class Results:
    """What the jobs showed."""

    def __init__(self, found: Mapping[Job, dict[str, Any]]) -> None:
        self._found = found
        self._read: dict[Job, Evidence] = {}

    def body(self, job: Job) -> dict[str, Any]:
        """A job's result. Raises MissingError."""
        found = self._found.get(job)
        if found is None:
            raise MissingError("not run")
        if "lacking" in found:
            raise MissingError(str(found["lacking"]))
        return found

    def of(self, job: Simulation) -> Evidence:
        """What a simulation showed. Raises MissingError."""
        if job not in self._read:
            self._read[job] = Evidence(self.body(job))
        return self._read[job]


@dataclass(frozen=True)
class Group:
    """Gates that belong together. `data` says that none of them can be run without public data.

    `note` says how its numbers come about.
    """

    name: str
    title: str
    note: str
    jobs: Callable[[Plan], Sequence[Job]]
    rows: Callable[[Plan, Results], Sequence[Row]]
    data: bool = False


@dataclass(frozen=True)
class Gauge:
    """How a row is measured: samples of a seed, and what is made of them."""

    seeds: tuple[int, ...]
    samples: Callable[[int], Samples]
    statistic: Statistic
    command: str


def judged(claim: Claim, gauge: Gauge, slack: float = 1.0) -> Row:
    """Return the claim's row, not run where a run is missing or has nothing to judge."""
    try:
        found = estimate.estimate(
            [(seed, gauge.samples(seed)) for seed in gauge.seeds], gauge.statistic
        )
    except estimate.EmptyError:
        return Row(claim, lacking=NOTHING, command=gauge.command)
    except MissingError as error:
        return Row(claim, lacking=str(error), command=gauge.command)
    return Row(
        claim,
        value=found.value,
        seeds=found.seeds,
        interval=found.interval,
        n=found.n,
        command=gauge.command,
        slack=slack,
    )


def measured(claim: Claim, command: str, value: Callable[[], float], n: int = 1) -> Row:
    """Return the row of one figure without seeds."""
    try:
        return Row(claim, value=value(), n=n, command=command)
    except MissingError as error:
        return Row(claim, lacking=str(error), command=command)


def without_data(claims: Sequence[Claim], command: str) -> list[Row]:
    """Return rows that say that they need data."""
    return [Row(claim, lacking=NO_DATA, command=command) for claim in claims]
