"""Runs an arm of a scenario with a seed: the way in for whoever judges simulations by program.

`run` gives what was measured; `measure` makes rows of it, `series` the shares over time.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tenantry_bench.simulator.arms import Cell
from tenantry_bench.simulator.arrivals import Feed
from tenantry_bench.simulator.contest import ALONE, APART
from tenantry_bench.simulator.drive import Clock, Drive, World
from tenantry_bench.simulator.profiles import Costs
from tenantry_bench.simulator.record import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tenantry_bench.simulator.options import Options
    from tenantry_bench.simulator.scenario import Scenario

PATIENCE: Final = 20.0
"""A run that is to drain is cut off after so many times the time in which requests arrive."""


def _quiet(_: float) -> None:
    """No progress is asked for."""


@dataclass(frozen=True)
class Run:
    """What one arm did with one seed. Arms in which every tenant has an engine of its own have a
    log for each, all others one.
    """

    scenario: Scenario
    arm: str
    seed: int
    options: Options
    logs: Sequence[Log]

    @property
    def end(self) -> float:
        """When the last of its engines was through, in seconds."""
        return max(log.end for log in self.logs)


def run(
    scenario: Scenario,
    arm: str,
    seed: int,
    options: Options,
    progress: Callable[[float], None] = _quiet,
) -> Run:
    """Simulate. The same arguments give the same run, to the last digit."""
    scenario = scenario.scaled(Costs(options.profile.times).request)
    if arm not in APART:
        return Run(scenario, arm, seed, options, [_one(scenario, arm, seed, options, progress)])
    logs = []
    for name in scenario.names:
        share = 1.0 if arm == ALONE else scenario.share(name)
        if share:
            part = scenario.only(name)
            logs.append(_one(part, arm, seed, options, progress, slowdown=1 / share))
    return Run(scenario, arm, seed, options, logs)


def _one(
    scenario: Scenario,
    arm: str,
    seed: int,
    options: Options,
    progress: Callable[[float], None],
    slowdown: float = 1.0,
) -> Log:
    cell = Cell(scenario, arm, options)
    costs = Costs(options.profile.times, slowdown)
    clock, log = Clock(), Log(scenario.names)
    world = World(
        feed=Feed(scenario, seed),
        costs=costs,
        seed=seed,
        name=scenario.drawn,
        depth=2 if options.engine.use_async else 1,
        block=options.block,
        admit=cell.admit,
    )
    drive = Drive(cell.scheduler(clock, log, costs), clock, world, log)
    # The scheduler makes no cycles worth looking for in every step; what is there stays.
    gc.collect()
    gc.freeze()
    until = scenario.duration * (PATIENCE if scenario.drain else 1)
    return drive.run(until, drain=scenario.drain, progress=progress)
