"""Runs on vLLM's real scheduler, with what a test wants to see of it. Imports vLLM."""

from dataclasses import dataclass, field
from typing import Any

from tenantry_bench.simulator import measure, oracle, runner
from tenantry_bench.simulator.arms import Cell
from tenantry_bench.simulator.arrivals import Feed
from tenantry_bench.simulator.drive import Clock, Drive, World
from tenantry_bench.simulator.measure import Outcome
from tenantry_bench.simulator.options import Engine, Options, Told
from tenantry_bench.simulator.profiles import Costs, find
from tenantry_bench.simulator.record import Log
from tenantry_bench.simulator.scenario import Scenario
from tenantry_bench.simulator.tests.small import a_scenario

__all__ = ["Told", "a_scenario", "judged", "options", "oracle", "ran", "watched"]

Decision = dict[str, int]


def options(
    *, kv: int = 40_000, seats: int = 32, use_async: bool = False, caching: bool = True
) -> Options:
    """A small engine on an A100."""
    return Options(
        profile=find("a100-llama3-8b"),
        engine=Engine(seats=seats, tokens=512, use_async=use_async, caching=caching),
        kv_tokens=kv,
    )


@dataclass
class Spy:
    """A scheduler that writes down what it schedules, and is the real one otherwise."""

    scheduler: Any
    decisions: list[Decision] = field(default_factory=list)

    def schedule(self) -> Any:
        output = self.scheduler.schedule()
        self.decisions.append(dict(output.num_scheduled_tokens))
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scheduler, name)


def watched(
    scenario: Scenario, arm: str, chosen: Options, costs: Costs | None = None
) -> tuple[Log, Spy]:
    """Run with one seed; the log has the requests, the spy the scheduler and its decisions."""
    prices = costs or Costs(chosen.profile.times)
    clock, log = Clock(), Log(scenario.names)
    cell = Cell(scenario, arm, chosen)
    spy = Spy(cell.scheduler(clock, log, prices))
    depth = 2 if chosen.engine.use_async else 1
    world = World(Feed(scenario, 7), prices, 7, scenario.name, depth, chosen.block, cell.admit)
    Drive(spy, clock, world, log).run(1000.0, drain=True, progress=lambda _: None)
    return log, spy


def ran(scenario: Scenario, arm: str, chosen: Options) -> Any:
    """A run with one seed."""
    return runner.run(scenario, arm, 7, chosen)


def judged(
    scenario: Scenario, arm: str, chosen: Options, dedicated: Outcome | None = None
) -> Outcome:
    """The outcome of such a run."""
    return measure.outcome(ran(scenario, arm, chosen), dedicated)
