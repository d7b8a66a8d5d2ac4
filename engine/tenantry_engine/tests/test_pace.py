"""The real vLLM scheduler with our mixin: how prompts come in while the KV cache is full."""

from typing import Any

import pytest

from tenantry_api.choices import Ordering
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def _largest(harness: Any, ordering: Ordering) -> int:
    """Tokens of the largest of many steps in which one tenant's requests take turns in the cache.

    A prompt has 900 tokens, seven requests of 1,100 fit at once, and one ends in 30 steps.
    """
    config = EngineConfig(tenants=("gold",), ordering=ordering)
    engine = harness.ours(config, harness.Size(seats=64, tokens=2048, blocks=500))
    refill = harness.backlog(["gold"], 20, 900, 200)
    for _ in range(800):
        refill(engine)
        engine.step()
    largest: int = max(sum(shot.tokens.values()) for shot in engine.log[400:])
    return largest


def test_an_order_that_is_kept_on_spreads_a_prompt_over_the_steps_between(harness: Any) -> None:
    assert _largest(harness, Ordering.SJF) <= 384


def test_first_come_first_served_has_vllms_own_steps(harness: Any) -> None:
    assert _largest(harness, Ordering.FIFO) > 900
