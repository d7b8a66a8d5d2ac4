"""Who is served when: a long prompt, one who comes back, a crowd of one tenant, odd weights."""

from itertools import pairwise
from typing import Any

import pytest

from tenantry_core import probes
from tenantry_core.probes import Probe
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])


def weighted(**weights: float) -> EngineConfig:
    return EngineConfig(weights=weights, tenants=tuple(weights))


@BOTH
def test_a_long_prompt_keeps_no_decode_of_another_tenant_from_its_step(
    harness: Any, use_async: bool
) -> None:
    size = harness.Size(seats=16, tokens=2048)
    engine = harness.ours(weighted(a=1, b=1), size, use_async=use_async)
    for number in range(4):
        engine.add(harness.request(f"a{number}", 10, 400, tenant="a"))
    for _ in range(8):
        engine.step()
    for number in range(8):
        engine.add(harness.request(f"b{number}", 1900, 1, tenant="b"))
    shots = [engine.step() for _ in range(60)]
    with_b = [shot for shot in shots if any(name.startswith("b") for name in shot.tokens)]
    assert with_b
    for shot in with_b:
        assert {f"a{number}" for number in range(4)} <= shot.tokens.keys()
        assert sum(n for name, n in shot.tokens.items() if name.startswith("b")) < 1024


def test_alone_a_long_prompt_has_the_whole_step(harness: Any) -> None:
    engine = harness.ours(weighted(a=1, b=1), harness.Size(seats=16, tokens=2048))
    engine.add(harness.request("b", 1900, 1, tenant="b"))
    assert engine.step().tokens == {"b": 1900}


@BOTH
@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 3, "b": 1}], ids=["1:1", "3:1"])
def test_a_tenant_that_comes_back_has_neither_credit_nor_debt(
    harness: Any, weights: dict[str, float], use_async: bool
) -> None:
    engine = harness.ours(weighted(**weights), use_async=use_async)
    engine.run(20.0, harness.backlog(["a"], 24, 128, 64))
    before = engine.generated.copy()
    engine.run(40.0, harness.backlog(["a", "b"], 24, 128, 64))
    then = engine.generated - before
    assert then["a"] / then["b"] == pytest.approx(weights["a"], rel=0.1)


def test_of_a_crowd_of_one_tenant_the_second_is_behind_another_tenant_s_only_request(
    harness: Any,
) -> None:
    engine = harness.ours(weighted(crowd=1, one=1), harness.Size(seats=1))
    for number in range(100):
        engine.add(harness.request(f"crowd-{number:02}", 20, 20, tenant="crowd"))
    engine.add(harness.request("one-0", 20, 20, tenant="one"))
    engine.run(3.0)
    order = sorted(engine.first, key=engine.first.__getitem__)
    assert "one-0" in order[:2]


def test_of_tenants_that_were_never_served_the_first_to_come_is_the_first_to_go(
    harness: Any,
) -> None:
    names = ["zoe", "bob", "mia", "ann"]
    engine = harness.ours(weighted(**dict.fromkeys(names, 1)), harness.Size(seats=1))
    for name in names:
        engine.add(harness.request(name, 20, 3, tenant=name))
        engine.idle(0.001)
    engine.drain()
    assert sorted(engine.first, key=engine.first.__getitem__) == names


def test_weights_far_apart_keep_their_order_and_nothing_is_not_a_number(harness: Any) -> None:
    engine = harness.ours(weighted(idle=0, small=1, large=99, huge=1e13))
    refill = harness.backlog(["idle", "small", "large", "huge"], 20, 64, 16)
    engine.run(40.0, refill)
    got = [engine.generated[tenant] for tenant in ("huge", "large", "small", "idle")]
    assert all(more >= less for more, less in pairwise(got))
    assert got[0] > 10 * got[1]
    for family in engine.conductor.book.metrics.collect():
        for sample in family.samples:
            assert sample.value == sample.value, sample.name  # NaN differs from itself


def test_a_step_to_learn_from_that_lacked_blocks_is_not_taken_for_one_that_ran(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "PROBE", 10**9)
    monkeypatch.setattr(probes, "SAMPLE", 2)  # often enough for some to meet a full cache
    engine = harness.ours(weighted(a=1, b=1), harness.Size(blocks=60))
    known, refill = engine.conductor._packer._probes, harness.backlog(["a", "b"], 12, 200, 60)
    found = []
    while engine.now < 110.0:
        refill(engine)
        decodes = {r.request_id for r in engine.scheduler.running if not r.is_prefill_chunk}
        before, last = known._others.wait, known._last
        ran = engine.step().tokens.keys()
        if known._others.wait > before:
            found.append(known._last)
            assert ran <= decodes if found[-1] is Probe.DECODES else not ran & decodes
            assert found[-1] is not last
    assert len(found) > 10
