"""The real vLLM scheduler with our mixin, in virtual time: what is shared, kept, and left alone."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tenantry_api.choices import Fairness, Mode
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])


def weighted(**weights: float) -> EngineConfig:
    return EngineConfig(weights=weights, tenants=tuple(weights), hash="test")


def gpu_seconds(engine: Any) -> dict[str, float]:
    return dict(engine.conductor.book.presence.attained())


def preemptions(engine: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (tenant, cause, _), value in engine.values("tenantry_preemptions").items():
        counts[f"{tenant} {cause}"] += int(value)
    return +counts


# --- one tenant: nothing of ours is on ----------------------------------------


@BOTH
@pytest.mark.parametrize("blocks", [2000, 120], ids=["room", "pressure"])
def test_with_one_tenant_every_step_is_the_one_that_vllm_makes(
    harness: Any, use_async: bool, blocks: int
) -> None:
    size = harness.Size(seats=16, tokens=256, blocks=blocks)
    logs = []
    for engine in (
        harness.ours(weighted(gold=3, free=1), size, use_async=use_async),
        harness.stock(size, use_async=use_async),
    ):
        rng = random.Random(5)  # noqa: S311 - a load
        for number in range(80):
            prompt, output = rng.randrange(5, 400), rng.randrange(1, 60)
            engine.add(harness.request(f"r{number}", prompt, output, tenant="gold"))
            for _ in range(rng.randrange(3)):
                engine.step()
        engine.drain()
        logs.append([list(shot.tokens.items()) for shot in engine.log])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_a_mode_that_does_not_enforce_leaves_vllm_s_order_and_counts(
    harness: Any, mode: Mode
) -> None:
    config = replace(weighted(gold=3, free=1), mode=mode)
    engines = (harness.ours(config), harness.stock())
    for engine in engines:
        engine.run(5.0, harness.backlog(["gold", "free"], 24, 100, 20))
    assert engines[0].log == engines[1].log
    assert engines[0].values("tenantry_tokens")["gold", "output"] > 0


def test_a_second_tenant_is_forgotten_after_ten_seconds(harness: Any) -> None:
    engine = harness.ours(weighted(gold=3, free=1), harness.Size(tokens=2048))
    engine.add(harness.request("free-0", 10, 2, tenant="free"))
    engine.drain()
    only_gold = harness.backlog(["gold"], 8, 400, 30)
    engine.run(5.0, only_gold)
    capped = max(sum(shot.tokens.values()) for shot in engine.log[-50:])
    engine.run(10.0, only_gold)
    free = max(sum(shot.tokens.values()) for shot in engine.log[-100:])
    assert capped < 400 < free


# --- shares --------------------------------------------------------------------


@BOTH
def test_weights_of_three_to_one_give_three_to_one(harness: Any, use_async: bool) -> None:
    engine = harness.ours(weighted(gold=3, free=1), use_async=use_async)
    engine.run(60.0, harness.backlog(["gold", "free"], 24, 128, 64))
    assert engine.generated["gold"] / engine.generated["free"] == pytest.approx(3.0, rel=0.05)


def test_stock_vllm_gives_both_the_same(harness: Any) -> None:
    engine = harness.stock()
    engine.run(20.0, harness.backlog(["gold", "free"], 24, 128, 64))
    assert engine.generated["gold"] / engine.generated["free"] == pytest.approx(1.0, rel=0.1)


def test_new_weights_hold_from_the_next_step_on(harness: Any) -> None:
    engine = harness.ours(weighted(gold=3, free=1))
    refill = harness.backlog(["gold", "free"], 24, 128, 64)
    engine.run(30.0, refill)
    engine.conductor.latest = weighted(gold=1, free=3)
    before = engine.generated.copy()
    engine.run(30.0, refill)
    then = engine.generated - before
    assert then["free"] / then["gold"] == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize(
    ("fairness", "seconds", "tokens"),
    [(Fairness.GPU_TIME, 1.0, None), (Fairness.TOKENS, None, 1.0)],
    ids=["GPUTime", "Tokens"],
)
def test_a_weight_buys_what_the_policy_says(
    harness: Any, fairness: Fairness, seconds: float | None, tokens: float | None
) -> None:
    config = replace(weighted(chat=1, documents=1), fairness=fairness)
    engine = harness.ours(config)
    chat = harness.backlog(["chat"], 24, 32, 64)
    documents = harness.backlog(["documents"], 24, 500, 16)

    def refill(engine: Any) -> None:
        chat(engine)
        documents(engine)

    engine.run(60.0, refill)
    share = gpu_seconds(engine)
    done = {t: priced(engine, t) for t in ("chat", "documents")}
    if seconds is not None:
        assert share["chat"] / share["documents"] == pytest.approx(seconds, rel=0.05)
    if tokens is not None:
        assert done["chat"] / done["documents"] == pytest.approx(tokens, rel=0.05)


def priced(engine: Any, tenant: str) -> float:
    values = engine.values("tenantry_tokens")
    return float(values[tenant, "prompt"] + 2 * values[tenant, "output"])


def test_without_fairness_between_tenants_the_order_is_one(harness: Any) -> None:
    engine = harness.ours(replace(weighted(gold=9, free=1), fairness=Fairness.NONE))
    for number in range(60):
        tenant = "gold" if number % 5 == 0 else "free"
        engine.add(harness.request(f"{number:02}", 64, 8, tenant=tenant))
    engine.drain()
    first = [engine.first[f"{number:02}"] for number in range(60)]
    assert all(earlier <= later for earlier, later in pairwise(first))


def test_weight_zero_is_served_when_nobody_else_waits(harness: Any) -> None:
    engine = harness.ours(weighted(gold=1, idle=0))
    refill = harness.backlog(["gold", "idle"], 24, 128, 32)
    engine.run(20.0, refill)
    assert engine.generated["idle"] < 0.1 * engine.generated["gold"]
    before = engine.generated.copy()
    engine.run(20.0, harness.backlog(["idle"], 24, 128, 32))
    assert (engine.generated - before)["idle"] > 10 * before["idle"]


# --- a quiet tenant beside a noisy one -----------------------------------------


def test_a_quiet_tenant_is_served_at_once_and_the_noisy_one_loses_little(harness: Any) -> None:
    cost = harness.Cost(fixed=0.003, prefill=0.00017, decode=0.0004)
    size = harness.Size(seats=16, tokens=2048, blocks=800)
    stock = noisy_neighbour(harness, harness.stock(size, cost=cost))
    fair = noisy_neighbour(harness, harness.ours(weighted(quiet=1, noisy=1), size, cost=cost))
    assert fair["ttft"] <= stock["ttft"] / 10
    assert fair["e2e"] <= stock["e2e"] / 3
    assert fair["step"] <= stock["step"] / 2
    assert fair["tokens"] >= 0.9 * stock["tokens"]


def noisy_neighbour(harness: Any, engine: Any) -> dict[str, float]:
    """P99 of the quiet tenant, seconds; tokens of both."""
    noisy = harness.backlog(["noisy"], 32, 512, 48)
    rng = random.Random(1)  # noqa: S311 - a load
    arrivals: dict[str, float] = {}
    engine.add(harness.request("quiet-warm", 30, 2, tenant="quiet"))
    engine.run(2.0, noisy)
    begin, steps = engine.now, len(engine.log)
    due = begin
    while engine.now < begin + 40:
        while due <= engine.now:
            name = f"quiet-{len(arrivals)}"
            engine.add(harness.request(name, rng.randrange(24, 41), 16, tenant="quiet"))
            arrivals[name] = due
            due += rng.expovariate(3)
        noisy(engine)
        engine.step()
    served = [name for name in arrivals if name in engine.finished]

    def p99(values: list[float]) -> float:
        return sorted(values)[int(len(values) * 0.99)]

    return {
        "ttft": p99([engine.first[name] - arrivals[name] for name in served]),
        "e2e": p99([engine.finished[name] - arrivals[name] for name in served]),
        "step": p99([shot.seconds for shot in engine.log[steps:]]),
        "tokens": sum(sum(shot.tokens.values()) for shot in engine.log[steps:]),
    }


# --- seats ---------------------------------------------------------------------


def a_full_house(harness: Any, **options: Any) -> Any:
    """Every seat taken by long answers of one tenant; the other has never been here."""
    engine = harness.ours(weighted(new=1, old=1), **options)
    for number in range(30):
        engine.add(harness.request(f"old-{number}", 64, 1500, tenant="old"))
    engine.run(1.0)
    assert len(engine.scheduler.running) == 16
    return engine


@BOTH
def test_a_newcomer_gets_a_seat_though_all_are_taken(harness: Any, use_async: bool) -> None:
    engine = a_full_house(harness, use_async=use_async)
    engine.add(harness.request("new-0", 32, 8, tenant="new"))
    arrival = engine.now
    engine.run(0.5)
    assert engine.finished["new-0"] - arrival < 0.3
    assert preemptions(engine) == {"old seat": 1}


def test_what_is_recalled_stays_within_the_allowance(harness: Any) -> None:
    engine = a_full_house(harness)
    begin = engine.now
    while engine.now < begin + 60:
        engine.add(harness.request(f"new-{len(engine.log)}", 16, 1, tenant="new"))
        engine.run(0.3)
        engine.idle(11.0) if len(engine.log) % 7 == 0 else None
    wasted = engine.values("tenantry_recomputed_tokens")["old",] * engine.cost.prefill
    assert 0 < wasted <= 0.05 * 60 * 1.2


def test_nobody_is_pushed_below_its_share_for_a_newcomer(harness: Any) -> None:
    engine = harness.ours(weighted(new=1, a=7, b=8))
    for number in range(8):
        engine.add(harness.request(f"a-{number}", 32, 1500, tenant="a"))
        engine.add(harness.request(f"b-{number}", 32, 1500, tenant="b"))
    engine.run(1.0)
    engine.add(harness.request("new-0", 32, 4, tenant="new"))
    engine.run(1.0)
    running = Counter(harness.tenant_of(each) for each in engine.scheduler.running)
    assert "new-0" in engine.finished
    assert running["b"] == 8
    assert preemptions(engine) == {"a seat": 1}


def test_a_wait_beyond_the_bound_is_an_inversion(harness: Any) -> None:
    engine = a_full_house(harness)
    engine.conductor.reclaim.allowance.spend(3.0, engine.now)
    engine.add(harness.request("new-0", 32, 8, tenant="new"))
    engine.run(2.0)
    assert "new-0" not in engine.first
    assert engine.values("tenantry_inversions")["new",] == 1


# --- the head of the line --------------------------------------------------------


@BOTH
def test_a_head_that_does_not_fit_stops_nobody_else(harness: Any, use_async: bool) -> None:
    size = harness.Size(seats=16, tokens=512, blocks=101)
    engine = harness.ours(weighted(small=1, large=1), size, use_async=use_async)
    for number in range(3):
        engine.add(harness.request(f"large-{number}", 500, 900, tenant="large"))
    engine.run(0.5)
    # `large` holds most blocks; its next head can have none, and its tag is the smaller one.
    for number in range(40):
        engine.add(harness.request(f"small-{number}", 16, 2, tenant="small"))
    engine.add(harness.request("large-9", 1400, 2, tenant="large"))
    engine.run(2.0)
    assert sum(name.startswith("small") for name in engine.finished) == 40
    assert "large-9" not in engine.first


def test_a_head_that_waits_for_its_grammar_stops_nobody_and_costs_no_step(harness: Any) -> None:
    engine = harness.ours(weighted(json=1, text=1))
    waiting = harness.request("json-0", 32, 4, tenant="json")
    harness.without_grammar(waiting)
    engine.add(waiting)
    refill = harness.backlog(["text"], 20, 200, 10)
    engine.run(3.0, refill)
    alone = harness.ours(weighted(json=1, text=1))
    alone.add(harness.request("json-0", 32, 4, tenant="json"))
    alone.run(3.0, harness.backlog(["text"], 20, 200, 10))
    assert engine.generated["text"] >= 0.95 * alone.generated["text"]
    assert not preemptions(engine)
    harness.grammar_is_ready(waiting)
    engine.run(0.5, refill)
    assert "json-0" in engine.finished


def test_prompts_of_the_more_served_tenant_sit_out_while_a_less_served_head_waits(
    harness: Any,
) -> None:
    engine = harness.ours(weighted(quiet=1, noisy=1))
    engine.add(harness.request("quiet-0", 16, 2, tenant="quiet"))
    engine.drain()
    noisy = harness.backlog(["noisy"], 8, 1500, 10)
    engine.run(2.0, noisy)
    engine.add(harness.request("quiet-1", 200, 2, tenant="quiet"))
    shot = engine.step()
    prompts = {n: t for n, t in shot.tokens.items() if n.startswith("noisy") and t > 1}
    assert shot.tokens["quiet-1"] > 1
    assert not prompts


def test_a_head_that_vllm_turns_away_does_not_hold_up_the_prompts_of_others(harness: Any) -> None:
    engine = harness.ours(weighted(quiet=1, noisy=1))
    engine.add(harness.request("quiet-0", 16, 2, tenant="quiet"))
    engine.drain()
    engine.add(harness.request("noisy-1", 16, 900, tenant="noisy"))
    engine.add(harness.request("noisy-0", 1800, 200, tenant="noisy"))
    engine.run(0.02)
    # vLLM's own reserve, which our estimate of free blocks does not know.
    engine.scheduler.kv_cache_manager.watermark_blocks = 1995
    engine.add(harness.request("quiet-1", 400, 2, tenant="quiet"))
    shots = [engine.step() for _ in range(60)]
    assert not any("quiet-1" in shot.tokens for shot in shots)
    assert "noisy-0" in engine.first
    engine.scheduler.kv_cache_manager.watermark_blocks = 0
    engine.run(0.5)
    assert "quiet-1" in engine.finished


def test_every_knob_is_back_after_every_step(harness: Any) -> None:
    engine = harness.ours(weighted(gold=3, free=1))
    scheduler = engine.scheduler

    def knobs() -> tuple[Any, ...]:
        return (
            scheduler.max_num_scheduled_tokens,
            scheduler.max_num_active_reqs,
            scheduler.adaptive_long_prefill_threshold,
            scheduler.scheduler_config.long_prefill_token_threshold,
        )

    before = knobs()
    refill = harness.backlog(["gold", "free"], 12, 600, 10)
    for _ in range(300):
        refill(engine)
        engine.step()
        assert knobs() == before
        assert len(set(map(id, scheduler.running))) == len(scheduler.running)
