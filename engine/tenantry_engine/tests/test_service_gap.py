"""The service gap of two backlogged tenants on the real vLLM scheduler, by the clock's table."""

from collections import Counter
from typing import Any

import pytest

from tenantry_api.choices import Fairness
from tenantry_engine.book import CREDIT
from tenantry_engine.config import EngineConfig
from tenantry_engine.gate import AHEAD

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

PROMPT, OUTPUT, SEATS = 600, 20, 16
LEAST_PROMPT = 32
"""Prefill tokens that a step may always hold: they share the fixed cost with the decodes."""


def priced(engine: Any, tokens: dict[str, int]) -> Counter[str]:
    """What a step gave to each tenant, by the table: the fixed cost goes with the tokens."""
    cost, total = engine.cost, sum(tokens.values())
    parts: Counter[str] = Counter()
    for name, count in tokens.items():
        own = cost.prefill if count > 1 else cost.decode
        parts[engine.owners[name]] += count * (own + cost.fixed / total)
    return parts


def served_apart(engine: Any, refill: Any, weights: dict[str, float]) -> tuple[float, float]:
    """The widest gap between f and g by weight within 20 s of virtual time, and the longest step;
    both always have something waiting."""
    engine.run(5.0, refill)  # the step model learns
    x = least = most = longest = 0.0
    until = engine.now + 20.0
    while engine.now < until:
        refill(engine)
        shot = engine.step()
        parts = priced(engine, shot.tokens)
        x += parts["f"] / weights["f"] - parts["g"] / weights["g"]
        least, most, longest = min(least, x), max(most, x), max(longest, shot.seconds)
        assert {"f", "g"} <= engine.conductor.queue.counts.keys()
    return most - least, longest


@pytest.mark.parametrize("weights", [(1.0, 1.0), (4.0, 1.0)], ids=["1:1", "4:1"])
@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_the_gap_stays_within_a_step_and_what_was_admitted_of_each(
    harness: Any, weights: tuple[float, float], use_async: bool
) -> None:
    by_name = dict(zip("fg", weights, strict=True))
    config = EngineConfig(weights=by_name, tenants=("f", "g"), hash="test")
    engine = harness.ours(config, harness.Size(seats=SEATS, blocks=4000), use_async=use_async)
    refill = harness.backlog("fg", 24, PROMPT, OUTPUT)
    gap, longest = served_apart(engine, refill, by_name)
    carried = SEATS * OUTPUT * (engine.cost.decode + engine.cost.fixed / LEAST_PROMPT)
    ahead = AHEAD * CREDIT[Fairness.GPU_TIME]
    under_way = longest if use_async else 0.0
    once = longest + under_way + carried + ahead
    assert gap <= sum(once / weight for weight in weights)


def test_a_newcomer_is_not_paid_for_the_time_that_another_took_when_it_was_idle(
    harness: Any,
) -> None:
    names = ("f", "g", "light")
    config = EngineConfig(weights=dict.fromkeys(names, 1.0), tenants=names, hash="test")
    engine = harness.ours(config, harness.Size(seats=SEATS, blocks=4000))
    light = harness.backlog(["light"], 2, 16, 1500)  # always something running, and little of it
    busy, newcomer = harness.backlog("f", 12, PROMPT, OUTPUT), harness.backlog("g", 12, PROMPT, 20)
    served: Counter[str] = Counter()
    while engine.now < 130.0:
        light(engine)
        busy(engine)
        if engine.now >= 120.0:
            newcomer(engine)
        parts = priced(engine, engine.step().tokens)
        served += parts if engine.now >= 122.0 else Counter()
    assert served["f"] == pytest.approx(served["g"], rel=0.1)


def test_control_stock_vllm_knows_no_weights(harness: Any) -> None:
    engine = harness.stock(harness.Size(seats=SEATS, blocks=4000))
    refill = harness.backlog("fg", 24, PROMPT, OUTPUT)
    served: Counter[str] = Counter()
    while engine.now < 120.0:
        refill(engine)
        served += priced(engine, engine.step().tokens)
    assert abs(served["f"] / 4 - served["g"]) > 5.0
