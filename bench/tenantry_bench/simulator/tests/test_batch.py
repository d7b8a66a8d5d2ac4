"""Many runs by program."""

from dataclasses import replace
from typing import Any

import pytest

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import batch
from tenantry_bench.simulator.batch import Task
from tenantry_bench.simulator.tests.small import a_scenario

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def test_runs_in_other_processes_are_those_that_run_here(world: Any) -> None:
    tasks = [Task(a_scenario(seconds=3.0), arm, 5, world.options()) for arm in ("stock", "alone")]
    here = {done.task.arm: done.outcome for done in batch.perform_all(tasks, workers=1)}
    there = {done.task.arm: done.outcome for done in batch.perform_all(tasks, workers=2)}
    assert set(here) == set(there) == {"stock", "alone"}
    for arm, outcome in here.items():
        assert outcome.tokens == there[arm].tokens
        assert outcome.end == there[arm].end


def test_lateness_comes_with_the_dedicated_arm_and_speed_with_every_run(world: Any) -> None:
    task = Task(a_scenario(seconds=3.0), "stock", 5, world.options(), lateness=True)
    done = batch.perform(task)
    assert done.outcome.samples["light"].due > 0
    assert done.speed > 1
    assert batch.perform(replace(task, lateness=False)).outcome.samples["light"].due == 0


def test_another_window_measures_other_requests_of_the_same_run(world: Any) -> None:
    task = Task(a_scenario(seconds=4.0), "stock", 5, world.options())
    late = replace(task, scenario=replace(task.scenario, window=(2.0, 4.0)))
    whole, part = (batch.perform(each).outcome for each in (task, late))
    assert 0 < len(part.tokens) < len(whole.tokens)
    assert all(whole.tokens[name] == tokens for name, tokens in part.tokens.items())


def test_an_arm_that_there_is_not_is_told(world: Any) -> None:
    with pytest.raises(BadInputError, match="no arm fast"):
        batch.perform(Task(a_scenario(), "fast", 5, world.options()))
