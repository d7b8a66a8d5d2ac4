"""What is told to the plugin for comparison: true, or wrong by as much as was asked for."""

import math
import statistics
from typing import Any

import pytest

from tenantry_bench.simulator.profiles import Costs, Work, find
from tenantry_bench.simulator.record import Record
from tenantry_bench.simulator.scenario import Recorded
from tenantry_core.stepmodel import Load

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

COSTS = Costs(find("a100-llama3-8b").times)
RECORDS = {f"r{n}": Record(Recorded(f"r{n}", "a", 0.0, 100, 200), 0) for n in range(400)}


@pytest.mark.parametrize(
    ("done", "limit", "left"), [(0, 4096, 200.0), (150, 4096, 50.0), (230, 4096, 1.0), (0, 64, 64)]
)
def test_true_lengths_are_what_is_left(world: Any, done: int, limit: int, left: float) -> None:
    assert world.oracle.TrueLengths(RECORDS).expect("a", 100, done, limit, "r0") == left


def test_noisy_lengths_are_off_by_a_factor_that_stays(world: Any) -> None:
    noisy = world.oracle.TrueLengths(RECORDS, sigma=0.7)
    found = [noisy.expect("a", 100, 0, 4096, name) for name in RECORDS]
    assert found == [noisy.expect("a", 100, 0, 4096, name) for name in RECORDS]
    assert statistics.stdev(math.log(each / 200) for each in found) == pytest.approx(0.7, rel=0.1)


def test_the_true_model_predicts_what_a_step_takes_but_for_its_noise(world: Any) -> None:
    load = Load(prefill=100, decodes=30, context=9000)
    work = Work(tokens=130, sequences=31, context=9000, mixed=True)
    assert world.oracle.TrueModel(COSTS).predict(load) == pytest.approx(COSTS.seconds(work))


@pytest.mark.parametrize(
    "loads",
    [
        {"a": Load(prefill=500), "b": Load(decodes=3, context=700)},
        {"a": Load(decodes=1, context=9), "b": Load(decodes=1, context=9)},
        {"a": Load(), "b": Load()},
    ],
    ids=["mixed", "equal", "nothing"],
)
def test_the_true_models_parts_add_up(world: Any, loads: dict[str, Load]) -> None:
    parts = world.oracle.TrueModel(COSTS).divide(0.03, loads)
    assert math.fsum(parts.values()) == pytest.approx(0.03, abs=1e-15)
    assert parts["a"] >= parts["b"]


def test_a_plugin_that_learns_is_told_nothing(world: Any) -> None:
    learned = world.Told("learned")
    assert world.oracle.injected(learned, learned, COSTS, lambda: RECORDS) == {}
