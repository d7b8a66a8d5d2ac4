"""No counter drifts: random runs in which all of them are counted again after every step."""

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from e2e import paths
from tenantry_api.choices import Fairness
from tenantry_core.ordering import ORDERINGS

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

STEPS = 1000
BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])


@BOTH
@pytest.mark.parametrize("fairness", Fairness)
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_a_recount_after_every_step_of_a_random_run_finds_what_was_counted(
    recount: Any, ordering: str, fairness: Fairness, use_async: bool
) -> None:
    load = recount.play(recount.Cell(ordering, fairness, use_async), STEPS)
    assert load.engine.preempted > 20
    assert len(load.aborted) > 10
    assert load.engine.compared > STEPS / 4


def test_a_counter_that_is_off_by_one_is_found(recount: Any, monkeypatch: Any) -> None:
    cell = recount.Cell("FIFO", Fairness.GPU_TIME, use_async=False)
    add = recount.Load.arrive

    def arrive(load: Any) -> None:
        add(load)
        load.engine.conductor.queue.counts["gold"] += len(load.wanted) > 30

    monkeypatch.setattr(recount.Load, "arrive", arrive)
    with pytest.raises(AssertionError):
        recount.play(cell, STEPS)


def test_a_charge_that_is_lost_is_found(recount: Any, monkeypatch: Any) -> None:
    cell = recount.Cell("FIFO", Fairness.TOKENS, use_async=False)
    settle = recount.settle

    def forgetful(load: Any, fairness: Fairness) -> None:
        load.engine.charged["gold"] -= 1
        settle(load, fairness)

    monkeypatch.setattr(recount, "settle", forgetful)
    with pytest.raises(AssertionError, match="gold: charged is not what was made"):
        recount.play(cell, STEPS)


def test_the_order_is_the_same_whatever_seed_the_hash_function_has() -> None:
    root = str(paths.checkout())
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tenantry_engine.tests.drift", "--order", "--steps", "120"],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for seed in ("1", "2")
    ]
    said = [run.communicate(timeout=170)[0].splitlines() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0][-1] == said[1][-1] != ""


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_a_thousand_requests_that_only_the_id_tells_apart_are_served_in_one_order(
    harness: Any, recount: Any, ordering: str
) -> None:
    orders = []
    for _ in range(2):
        engine = harness.Engine(None)
        config = recount.configuration(ordering)
        harness.equip(engine, config, harness.Size(seats=64, tokens=2048), use_async=False)
        parents = [f"{number:03}" for number in range(500)]
        names = [f"{child}_{parent}" for parent in parents for child in range(2)]
        for place, name in enumerate(names):
            tenant = recount.TENANTS[place // 2 % 2]
            engine.add(harness.request(name, [5, 6, 7], 1, tenant=tenant))
        engine.drain()
        assert Counter(engine.tokens_by_request) == dict.fromkeys(names, 1)
        orders.append([list(shot.tokens) for shot in engine.log])
    assert orders[0] == orders[1]
