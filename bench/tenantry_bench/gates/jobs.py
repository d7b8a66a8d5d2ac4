"""The runs that rows are made of. A job is plain data: equal jobs are run once and kept."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar, Final

PROFILE: Final = "a100-llama3-8b"
RESULT_VERSION: Final = 1
PLAIN: Final = ("stock", "stock-priority", "alone", "dedicated")
"""Arms that vLLM's own scheduler runs."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """One arm of a scenario with one seed.

    `only` leaves one tenant, `duration` replaces the scenario's (0: its own). Token times are kept
    of the tenants in `keep`, who they are shows in the key so that nothing is missing from a kept
    result. `data` is the folder that fills a scenario with public data. `aging`, `doubling`,
    `growth` and `pace` are told to the scheduler where they are not None.
    """

    scenario: str
    arm: str
    seed: int
    tokens: int = 0
    lengths: str = "learned"
    model: str = "learned"
    profile: str = PROFILE
    keep: tuple[str, ...] = ()
    only: str = ""
    duration: float = 0.0
    data: str = ""
    aging: float | None = None
    doubling: float | None = None
    growth: bool | None = None
    pace: bool | None = None

    alone: ClassVar[bool] = False

    @property
    def plain(self) -> bool:
        """Whether only vLLM's own scheduler runs, so that our code makes no difference."""
        return self.arm in PLAIN

    @property
    def title(self) -> str:
        """For progress."""
        parts = [self.scenario, self.arm, f"seed {self.seed}"]
        parts += [f"{name} {text}" for name, text in self._told()]
        return " ".join(parts)

    @property
    def effort(self) -> float:
        """About how long it takes, compared with others."""
        return EFFORT.get(self.scenario.partition("-")[0], 5.0) * (0.1 if self.only else 1.0)

    def _told(self) -> list[tuple[str, str]]:
        found = []
        if self.tokens:
            found.append(("tokens", str(self.tokens)))
        if self.lengths != "learned":
            found.append(("lengths", self.lengths))
        if self.model != "learned":
            found.append(("model", self.model))
        if self.aging is not None:
            found.append(("aging", f"{self.aging:g}"))
        if self.doubling is not None:
            found.append(("doubling", f"{self.doubling:g}"))
        switches = (("growth gate", self.growth), ("pace", self.pace))
        found += [(name, "on" if on else "off") for name, on in switches if on is not None]
        return found


EFFORT: Final = {"N7": 20.0, "N4": 10.0, "tiers": 12.0}


class Kind:
    """What is alike for all jobs that are no simulations: whether it has to run alone, whether only
    vLLM's own scheduler runs, and about how long it takes, compared with others."""

    __slots__ = ()
    alone: ClassVar[bool] = False
    plain: ClassVar[bool] = False
    effort: ClassVar[float] = 25.0

    @property
    def title(self) -> str:
        """For progress."""
        return _title(self)


@dataclass(frozen=True, slots=True)
class Fidelity(Kind):
    """Closed loops as they were measured on a GPU, each with the profile, or with a fit that left
    its workload out. `data` is the folder of public data.
    """

    gpu: str
    data: str
    apart: bool = False

    plain: ClassVar[bool] = True
    effort: ClassVar[float] = 20.0


@dataclass(frozen=True, slots=True)
class Alike(Kind):
    """One tenant under our scheduler and under vLLM's: are all steps equal?"""

    scenario: str
    tenant: str
    seed: int
    duration: float

    effort: ClassVar[float] = 6.0


@dataclass(frozen=True, slots=True)
class Overhead(Kind):
    """The CPU time of a case of `tenantry_bench.overhead`, the median of `runs`."""

    case: str
    runs: int = 5
    steps: int = 600

    alone: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Recount(Kind):
    """So many random steps with an ordering, each counter counted a second time after each.

    `other` takes the other release of vLLM that the tests know.
    """

    ordering: str
    steps: int = 10_000
    other: bool = False


def _title(job: Kind) -> str:
    if isinstance(job, Fidelity):
        return f"measured runs on {job.gpu}{', workload left out of the fit' * job.apart}"
    if isinstance(job, Alike):
        return f"{job.scenario} {job.tenant} alone, step by step, seed {job.seed}"
    if isinstance(job, Overhead):
        return f"overhead: {job.case}"
    if isinstance(job, Recount):
        release = ", the other vLLM" * job.other
        return f"random loads: {job.ordering}, {job.steps:,} steps a cell{release}"
    raise TypeError(f"a {type(job).__name__} is no job")


Job = Simulation | Fidelity | Alike | Overhead | Recount


def command(scenarios: str, arms: str, seeds: tuple[int, ...], *more: str) -> str:
    """The `tenantry simulate` that shows the same runs."""
    words = ["tenantry", "simulate", *scenarios.split(), "--arms", arms]
    return shlex.join([*words, "--seeds", ",".join(map(str, seeds)), *more])
