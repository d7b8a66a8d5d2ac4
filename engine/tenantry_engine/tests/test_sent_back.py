"""A request that is sent back: nothing of it is left in the step, and its work is not in vain."""

from typing import Any

import pytest

from tenantry_api.choices import Fairness
from tenantry_core.ordering import ORDERINGS

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
FOUR = 4 + 1
"""Blocks, and the one that vLLM keeps for itself."""


@BOTH
@pytest.mark.parametrize("fairness", [Fairness.GPU_TIME, Fairness.TOKENS])
def test_who_is_sent_back_is_in_nothing_of_the_step_and_every_count_is_right(
    recount: Any, harness: Any, fairness: Fairness, use_async: bool
) -> None:
    size = harness.Size(seats=2, tokens=64, blocks=FOUR)
    config = recount.configuration("Priority", fairness)
    engine = recount.Audit(None, depth=2 if use_async else 1, size=size)
    harness.equip(engine, config, size, use_async=use_async)
    engine.watch()
    wanted = {"low": 30, "high": 30}
    for name, tenant, priority in (("low", "silver", 5), ("high", "gold", 0)):
        each = harness.request(name, 20, wanted[name], tenant=tenant)
        each.priority = priority
        engine.add(each)
    # Either needs the whole cache in the end, so one goes back; every step is recounted.
    engine.drain()
    engine.step()
    recount.settle(recount.Load(engine, None, config, wanted=wanted), fairness)
    assert engine.preempted > 0
    assert engine.finished["high"] < engine.finished["low"]
    assert (
        sum(n for (t, *_), n in engine.values("tenantry_preemptions").items() if t == "gold") == 0
    )


def rivals(recount: Any, harness: Any, ordering: str) -> Any:
    """One seat: `a` has done most of its prompt, `b` came before it and has not begun."""
    engine = harness.Engine(None)
    size = harness.Size(seats=1, tokens=100)
    harness.equip(engine, recount.configuration(ordering), size, use_async=False)
    engine.add(harness.request("other", 20, 1, tenant="silver"))
    engine.drain()
    a, b = (harness.request(name, 1000, 4, tenant="gold") for name in "ab")
    engine.add(a)
    a.arrival_time += 1.0
    for _ in range(9):
        engine.step()
    engine.add(b)
    b.arrival_time = a.arrival_time - 1.0
    return engine


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_one_that_was_sent_back_goes_before_its_rival_at_most_three_times(
    recount: Any, harness: Any, ordering: str
) -> None:
    engine = rivals(recount, harness, ordering)
    order: list[str] = []
    for _ in range(6):
        engine.scheduler.reset_prefix_cache(reset_running_requests=True)
        shot = engine.step()
        order.append(*shot.tokens)
    assert order[:3] == ["a", "a", "a"]
    assert "b" in order[3:]
    engine.drain()
    harness.assert_empty(engine)
