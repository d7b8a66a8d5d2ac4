"""Does a job: the real scheduler under the virtual clock. Imports vLLM, which takes seconds.

What a job gives is plain data (numbers, text, lists) that goes into a file. A job that this version
cannot do gives `{"lacking": WHY}`.
"""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from tenantry_bench import overhead
from tenantry_bench.gates import drift, evidence, scenarios
from tenantry_bench.gates.jobs import PROFILE, Alike, Fidelity, Job, Overhead, Recount, Simulation
from tenantry_bench.simulator import fidelity, oracle, profiles, runner, shares
from tenantry_bench.simulator.arms import Cell
from tenantry_bench.simulator.arrivals import Feed
from tenantry_bench.simulator.drive import Clock, Drive, World
from tenantry_bench.simulator.options import Engine, Options, told
from tenantry_bench.simulator.profiles import Costs
from tenantry_bench.simulator.record import Log
from tenantry_core.ordering import Parameters
from tenantry_engine import offline
from tenantry_engine.conductor import Setup
from tenantry_engine.metrics import EngineMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenantry_bench.simulator.scenario import Scenario

DIGITS: Final = 6
"""Times are kept to the microsecond."""


class LackingError(Exception):
    """This version, or this installation, cannot do the job. The text says what is missing."""


def perform(job: Job) -> dict[str, Any]:
    """Return what the job showed."""
    gc.unfreeze()
    gc.collect()
    try:
        if isinstance(job, Simulation):
            return _simulation(job)
        if isinstance(job, Fidelity):
            return _fidelity(job)
        if isinstance(job, Alike):
            return _alike(job)
        return _overhead(job) if isinstance(job, Overhead) else _recount(job)
    except LackingError as error:
        return {"lacking": f"not run: {error}"}


# --- simulations --------------------------------------------------------------------------


def _options(job: Simulation) -> Options:
    return Options(
        profile=profiles.find(job.profile),
        engine=Engine(tokens=job.tokens or None),
        lengths=told("--lengths", job.lengths, "noisy"),
        model=told("--model", job.model, "bias"),
    )


def _simulation(job: Simulation) -> dict[str, Any]:
    scenario = scenarios.find(job.scenario, Path(job.data) if job.data else None)
    if job.duration:
        scenario = scenario.lasting(job.duration)
    if job.only:
        scenario = scenario.only(job.only)
    options = _options(job)
    began = time.process_time()
    extra = _extra(job)
    if extra:
        logs: Sequence[Log] = [_tuned(scenario, job, options, extra)]
    else:
        logs = runner.run(scenario, job.arm, job.seed, options).logs
    cpu = time.process_time() - began
    return _kept(scenario, logs, Costs(options.profile.times), job) | {"cpu": round(cpu, 3)}


def _extra(job: Simulation) -> dict[str, Any]:
    """Fields of `Setup` beside those that a simulation always gives."""
    found: dict[str, Any] = {}
    given = {"aging": job.aging, "doubling": job.doubling}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if chosen:
        found["parameters"] = Parameters(**chosen)
    switches = {"growth": job.growth, "pace": job.pace}
    found |= {name: value for name, value in switches.items() if value is not None}
    for name in found.keys() - {each.name for each in fields(Setup)}:
        raise LackingError(f"this version's scheduler takes no {name}")
    return found


@dataclass(frozen=True)
class Tuned(Cell):
    """A run whose plugin is told more than a policy says."""

    extra: Mapping[str, Any] = field(default_factory=dict)

    def scheduler(self, clock: Clock, log: Log, costs: Costs) -> Any:
        """The scheduler of this arm."""
        config = self.config
        if config is None:
            return super().scheduler(clock, log, costs)
        given = oracle.injected(
            self.options.lengths, self.options.model, costs, lambda: log.records
        )
        metrics = EngineMetrics(config, CollectorRegistry())
        setup = Setup(config, metrics, clock=clock, **given, **self.extra)
        return offline.ours(self.size, setup)


def _tuned(scenario: Scenario, job: Simulation, options: Options, extra: Mapping[str, Any]) -> Log:
    cell = Tuned(scenario, job.arm, options, extra)
    return _driven(cell, Feed(scenario, job.seed), job.seed)


def _driven(cell: Cell, feed: Feed, seed: int) -> Log:
    costs = Costs(cell.options.profile.times)
    clock, log = Clock(), Log(cell.scenario.names)
    world = World(feed, costs, seed, cell.scenario.name, block=cell.options.block, admit=cell.admit)
    drive = Drive(cell.scheduler(clock, log, costs), clock, world, log)
    gc.collect()
    gc.freeze()
    drain = cell.scenario.drain
    until = cell.scenario.duration * (runner.PATIENCE if drain else 1)
    return drive.run(until, drain=drain, progress=lambda _: None)


def _kept(scenario: Scenario, logs: Sequence[Log], costs: Costs, job: Simulation) -> dict[str, Any]:
    names = list(scenario.names)
    requests: dict[str, Any] = {}
    times: dict[str, list[float]] = {}
    for log in logs:
        for name, record in log.records.items():
            owner = log.tenants[record.tenant]
            requests[name] = _request(owner, record, costs)
            if owner in job.keep:
                due = record.body.t
                times[name] = [round(at - due, DIGITS) for at in record.times]
    end = max(log.end for log in logs)
    window = (scenario.window[0], end) if scenario.drain else scenario.window
    return {
        "tenants": names,
        "end": end,
        "window": list(window),
        "requests": requests,
        "times": times,
        "bins": _bins(names, logs, int(end) + 1),
        "shares": _shares(scenario, logs) if len(logs) == 1 and len(names) > 1 else {},
    }


def _request(owner: str, record: Any, costs: Costs) -> list[Any]:
    due, ended, times = record.body.t, record.ended, record.times
    if record.refused:
        state = evidence.REFUSED
    elif record.finished:
        state = evidence.FINISHED
    else:
        state = evidence.UNFINISHED if ended is None else evidence.FAILED
    first = round(times[0] - due, DIGITS) if times else None
    last = None if ended is None else round(ended - due, DIGITS)
    work = round(costs.request(record.prompt, record.length), DIGITS)
    return [owner, round(due, DIGITS), first, last, state, work]


def _bins(names: list[str], logs: Sequence[Log], seconds: int) -> dict[str, list[list[float]]]:
    kinds = ("service", "gpu", "preempted", "recomputed")
    found = {kind: [[0.0] * len(names) for _ in range(seconds)] for kind in kinds}
    for log in logs:
        place = [names.index(name) for name in log.tenants]
        for line in log.lines:
            at = min(int(line.end), seconds - 1)
            for index, where in enumerate(place):
                made = line.prompt[index] + 2 * line.output[index]
                found["service"][at][where] += made
                found["gpu"][at][where] += line.gpu[index]
        for when, tenant in log.preemptions:
            found["preempted"][min(int(when), seconds - 1)][place[tenant]] += 1
        for when, tenant, tokens in log.recomputed:
            found["recomputed"][min(int(when), seconds - 1)][place[tenant]] += tokens
    found["gpu"] = [[round(value, DIGITS) for value in row] for row in found["gpu"]]
    return found


def _shares(scenario: Scenario, logs: Sequence[Log]) -> dict[str, float]:
    """How evenly the window was divided, by the cost model's true times."""
    weights = {tenant.name: tenant.weight for tenant in scenario.tenants}
    given = shares.series(logs[0]).between(*scenario.window)
    found = {"gap": shares.gap(given, weights), "jain": shares.jain(given, weights)}
    if len(given.times) and given.times[-1] - given.times[0] >= shares.SPAN:
        found["error"] = shares.share_error(given, weights)
    return found


# --- the rest -----------------------------------------------------------------------------


def _fidelity(job: Fidelity) -> dict[str, Any]:
    found = fidelity.compare(Path(job.data), job.gpu, leave_out=job.apart)
    return {"compared": [asdict(each) for each in found]}


def _alike(job: Alike) -> dict[str, Any]:
    whole = scenarios.find(job.scenario).lasting(job.duration)
    scenario = whole.only(job.tenant)
    options = Options(profile=profiles.find(PROFILE))
    logs = [_steps(scenario, arm, job.seed, options) for arm in ("stock", "tenantry:FIFO")]
    return {"equal": logs[0] == logs[1], "steps": len(logs[0])}


def _steps(scenario: Scenario, arm: str, seed: int, options: Options) -> list[Any]:
    log = runner.run(scenario, arm, seed, options).logs[0]
    return [(line.end, line.prompt, line.output) for line in log.lines]


def _overhead(job: Overhead) -> dict[str, Any]:
    case = next(each for each in overhead.CASES if each.name == job.case)
    found = overhead.median([overhead.measure(case, job.steps, seed) for seed in range(job.runs)])
    return {
        "added": found.added,
        "tail": found.ours_p99 / found.stock_p99,
        "stock_us": found.stock_p50,
        "ours_us": found.ours_p50,
    }


def _recount(job: Recount) -> dict[str, Any]:
    try:
        return drift.measured(job.ordering, job.steps, other=job.other)
    except ImportError as error:
        raise LackingError("the tests are not installed; run it in a checkout") from error
