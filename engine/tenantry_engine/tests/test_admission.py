"""The real vLLM scheduler with our mixin: who is admitted when not everybody fits."""

from typing import Any

import pytest

from tenantry_api.choices import Fairness, Ordering, Tier
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

FEW = {"seats": 64, "tokens": 2048, "blocks": 101}


def a_config(**weights: float) -> EngineConfig:
    return EngineConfig(weights=weights, tenants=tuple(weights))


def running(engine: Any) -> set[str]:
    return {each.request_id for each in engine.scheduler.running}


# --- a head that does not fit ------------------------------------------------------


@pytest.mark.parametrize("small", ["gold", "free"], ids=["of the same tenant", "of another tenant"])
@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.COST])
def test_small_requests_start_past_a_large_one_that_does_not_fit(
    harness: Any, small: str, ordering: Ordering
) -> None:
    config = EngineConfig(tenants=("gold", "free"), ordering=ordering)
    engine = harness.ours(config, harness.Size(**FEW))
    engine.add(harness.request("holds", 900, 400, tenant="free"))
    engine.step()
    engine.add(harness.request("large", 1500, 4, tenant="gold"))
    for number in range(2):
        engine.add(harness.request(f"small-{number}", 100, 4, tenant=small))
    engine.step()
    engine.step()
    assert {"small-0", "small-1"} <= running(engine) | set(engine.finished)
    assert "large" not in running(engine)


def starts(engine: Any, name: str, refill: Any, steps: int = 2000) -> bool:
    """Whether the request yields a token within so many steps, beside what `refill` brings."""
    for _ in range(steps):
        refill(engine)
        engine.step()
        if name in engine.first:
            return True
    return False


@pytest.mark.parametrize("small", ["free", "gold", "gold free"])
def test_a_large_request_starts_though_small_ones_never_stop_coming(
    harness: Any, small: str
) -> None:
    config = EngineConfig(tenants=("gold", "free"), ordering=Ordering.FIFO)
    engine = harness.ours(config, harness.Size(**FEW))
    smalls = harness.backlog(small.split(), 24, 60, 40)
    engine.run(1.0, smalls)
    engine.add(harness.request("large", 1500, 4, tenant="gold"))
    assert starts(engine, "large", smalls)


def test_with_one_tenant_and_an_order_of_its_own_a_large_request_starts_too(harness: Any) -> None:
    config = EngineConfig(tenants=("gold",), ordering=Ordering.SJF)
    engine = harness.ours(config, harness.Size(**FEW))
    smalls = harness.backlog(["gold"], 24, 60, 10)
    engine.run(1.0, smalls)
    engine.add(harness.request("large", 1500, 4, tenant="gold"))
    assert starts(engine, "large", smalls)


@pytest.mark.parametrize("fairness", [Fairness.GPU_TIME, Fairness.NONE])
def test_what_blocks_are_set_aside_for_starts_however_many_stand_before_it(
    harness: Any, fairness: Fairness
) -> None:
    config = EngineConfig(tenants=("gold",), ordering=Ordering.SJF, fairness=fairness)
    engine = harness.ours(config, harness.Size(**FEW))
    engine.add(harness.request("holds", 900, 400, tenant="gold"))
    engine.step()
    engine.add(harness.request("large", 1500, 40, tenant="gold"))
    for _ in range(300):
        engine.step()
    engine.add(*(harness.request(f"small-{n}", 100, 4, tenant="gold") for n in range(20)))
    engine.drain(1000)
    assert "large" in engine.finished


def test_nothing_is_set_aside_for_weight_0_from_those_whom_it_waits_for(harness: Any) -> None:
    engine = harness.ours(a_config(gold=1, batch=0), harness.Size(**FEW))
    engine.add(harness.request("holds", 300, 1100, tenant="gold"))
    engine.step()
    engine.add(harness.request("large", 1500, 4, tenant="batch"))
    for _ in range(1050):
        engine.step()
    engine.add(harness.request("next", 100, 4, tenant="gold"))
    engine.drain(1000)
    assert engine.finished["next"] < engine.finished["holds"] < engine.finished["large"]


def test_nothing_is_set_aside_any_more_for_a_request_that_was_aborted(harness: Any) -> None:
    config = EngineConfig(tenants=("gold",), ordering=Ordering.SJF)
    engine = harness.ours(config, harness.Size(**FEW))
    engine.add(harness.request("holds", 900, 400, tenant="gold"))
    engine.step()
    engine.add(harness.request("large", 1500, 4, tenant="gold"))
    for _ in range(300):
        engine.step()
    engine.add(harness.request("small", 100, 4, tenant="gold"))
    engine.scheduler.finish_requests("large", harness.ABORTED)
    engine.step()
    assert "small" in running(engine)


def test_seats_are_not_kept_free_for_all_who_come_now_and_then_at_once(harness: Any) -> None:
    engine = harness.ours(EngineConfig(open_tenants=True), harness.Size())
    busy, due, held = harness.backlog(["busy"], 48, 100, 100), [0.0], []

    def refill(engine: Any) -> None:
        busy(engine)
        if engine.now >= due[0]:  # twenty tenants in turn, each every five seconds
            number = int(engine.now * 4)
            engine.add(harness.request(f"{number}", 30, 8, tenant=f"light-{number % 20}"))
            due[0] = engine.now + 0.25
        seats = [harness.tenant_of(each) for each in engine.scheduler.running]
        held.append(seats.count("busy"))

    engine.run(12.0, refill)
    later = held[len(held) // 2 :]
    assert sum(later) / len(later) > 12


def test_a_request_that_can_never_fit_is_refused_and_the_next_one_starts_in_the_same_step(
    harness: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = harness.ours(a_config(gold=1), harness.Size(seats=4, tokens=512, blocks=20))
    engine.add(harness.request("huge", 400, 4, tenant="gold"))
    engine.add(harness.request("next", 100, 4, tenant="gold"))
    shot = engine.step()
    assert "next" in shot.tokens
    assert "huge" in engine.finished
    assert engine.tokens_by_request["huge"] == 0
    assert "request huge needs 26 KV blocks and the engine has 19: it is refused" in caplog.text
    engine.drain()
    harness.assert_empty(engine)


def test_a_refused_request_alone_is_answered_too(harness: Any) -> None:
    engine = harness.ours(a_config(gold=1), harness.Size(seats=4, tokens=512, blocks=20))
    engine.add(harness.request("huge", 400, 4, tenant="gold"))
    assert engine.scheduler.has_requests()
    engine.step()
    assert "huge" in engine.finished
    harness.assert_empty(engine)


# --- seats -------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["max_num_seqs", "max_num_active_seqs"])
def test_two_seats_full_of_long_answers_and_the_urgent_request_runs_within_two_steps(
    harness: Any, limit: str
) -> None:
    config = EngineConfig(
        tenants=("urgent", "low"), tiers={"urgent": Tier.CRITICAL, "low": Tier.BATCH}
    )
    given = harness.arguments(harness.Size(seats=2 if limit == "max_num_seqs" else 8))
    setattr(given["vllm_config"].scheduler_config, limit, 2)
    engine = harness.Engine(None)
    harness.install(engine, config, given)
    for number in range(2):
        engine.add(harness.request(f"low-{number}", 32, 1000, tenant="low"))
    engine.run(0.5)
    engine.add(harness.request("urgent-0", 32, 8, tenant="urgent"))
    engine.step()
    engine.step()
    assert "urgent-0" in running(engine)
    assert sum(engine.values("tenantry_preemptions").values()) == 1


def test_within_a_tenant_nobody_is_sent_back_for_a_seat(harness: Any) -> None:
    engine = harness.ours(a_config(low=1), harness.Size(seats=2))
    for number in range(4):
        engine.add(harness.request(f"low-{number}", 32, 300, tenant="low"))
    engine.drain()
    assert not any(engine.values("tenantry_preemptions").values())


# --- bands, order, estimates -------------------------------------------------------


def test_a_tier_is_served_before_the_next_which_keeps_its_floor(harness: Any) -> None:
    config = EngineConfig(tenants=("a", "b"), tiers={"a": Tier.CRITICAL, "b": Tier.BATCH})
    engine = harness.ours(config)
    engine.run(60.0, harness.backlog(["a", "b"], 24, 128, 32))
    share = engine.conductor.book.presence.attained()
    assert 0.04 <= share["b"] <= 0.12


def test_one_tenant_s_hundred_do_not_all_go_before_another_s_one(harness: Any) -> None:
    engine = harness.ours(a_config(many=1, one=1), harness.Size(seats=64, tokens=2048))
    for number in range(100):
        engine.add(harness.request(f"many-{number}", 200, 8, tenant="many"))
    engine.add(harness.request("one-0", 200, 8, tenant="one"))
    order: list[str] = []
    for _ in range(5):
        order += [name for name in engine.step().tokens if name not in order]
    assert "one-0" in order[:2]


def test_a_key_is_made_with_lengths_that_were_learned_and_the_shorter_kind_goes_first(
    harness: Any,
) -> None:
    config = EngineConfig(tenants=("gold",), ordering=Ordering.SJF)
    engine = harness.ours(config, harness.Size(seats=2))
    for number in range(40):
        engine.add(harness.request(f"chat-{number}", 20, 5, tenant="gold"))
        engine.add(harness.request(f"essay-{number}", 300, 80, tenant="gold"))
    engine.drain()
    for number in range(10):
        engine.add(harness.request(f"essay-b{number}", 300, 80, tenant="gold"))
        engine.add(harness.request(f"chat-b{number}", 20, 80, tenant="gold"))
    engine.drain()
    first = {name: engine.first[name] for name in engine.first if "-b" in name}
    chats = [at for name, at in first.items() if name.startswith("chat")]
    essays = [at for name, at in first.items() if name.startswith("essay")]
    assert sum(chats) < sum(essays)


def test_without_fairness_the_ordering_holds_over_all_tenants(harness: Any) -> None:
    config = EngineConfig(
        tenants=("gold", "free"), ordering=Ordering.PRIORITY, fairness=Fairness.NONE
    )
    engine = harness.ours(config, harness.Size(seats=2))
    for number in range(12):
        tenant = "gold" if number % 2 else "free"
        each = harness.request(f"r{number:02}", 32, 16, tenant=tenant)
        each.priority = -number
        engine.add(each)
    engine.drain()
    begun = sorted(engine.first, key=lambda name: (engine.first[name], name))
    assert set(begun[:4]) == {"r11", "r10", "r09", "r08"}


@pytest.mark.parametrize("ordering", list(Ordering))
def test_requests_that_nothing_tells_apart_are_served_in_the_same_order_in_every_run(
    harness: Any, ordering: Ordering
) -> None:
    logs = []
    for _ in range(2):
        config = EngineConfig(tenants=("gold", "free"), ordering=ordering)
        engine = harness.ours(config, harness.Size(seats=8))
        for number in range(120):
            tenant = "gold" if number % 2 else "free"
            engine.add(harness.request(f"{number % 2}_r{number // 2}", 40, 3, tenant=tenant))
        engine.drain()
        logs.append([list(shot.tokens) for shot in engine.log])
    assert logs[0] == logs[1]


def test_little_memory_is_not_filled_with_what_cannot_grow(harness: Any) -> None:
    counts = {}
    for ordering in (Ordering.SJF, Ordering.COST):
        config = EngineConfig(tenants=("gold",), ordering=ordering)
        engine = harness.ours(config, harness.Size(seats=64, tokens=2048, blocks=121))
        for number in range(150):
            engine.add(harness.request(f"r{number}", 60, 120, tenant="gold"))
        engine.drain()
        counts[ordering] = sum(engine.values("tenantry_preemptions").values())
    # With one tenant and the default everything is vLLM's own.
    assert counts[Ordering.SJF] <= 0.7 * counts[Ordering.COST]
