"""Each feature of vLLM's that Tenantry allows works under its scheduler: nothing is lost, every
counter holds, and what vLLM skips holds up nobody."""

from collections import Counter
from typing import Any

import pytest

from tenantry_api.choices import Fairness
from tenantry_core.ordering import ORDERINGS

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BOTH = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
NAMES = (
    "LoRA",
    "speculative decoding",
    "structured output",
    "streaming input",
    "no chunked prefill",
    "images",
    "pooling",
    "pipeline parallel",
    "data parallel",
    "a hybrid model",
)
STEPS = 400


def made(features: Any, recount: Any, use_async: bool, **more: Any) -> Any:
    """An engine for three tenants."""
    options = features.Options(**more)
    return features.engine(recount.configuration("FIFO"), options, use_async=use_async)


def test_every_feature_has_a_random_run(features: Any) -> None:
    assert tuple(features.FEATURES) == NAMES


@BOTH
@pytest.mark.parametrize("fairness", [Fairness.GPU_TIME, Fairness.TOKENS])
@pytest.mark.parametrize("name", NAMES)
def test_in_a_random_run_every_request_gets_its_tokens_and_every_counter_holds(
    features: Any, recount: Any, name: str, fairness: Fairness, use_async: bool
) -> None:
    feature = features.FEATURES[name]
    config = recount.configuration("FIFO", fairness)
    engine = features.engine(
        config, feature.options, feature.size, use_async=use_async, kind=feature.kind
    )
    load = recount.run(engine, config, STEPS, maker=feature.maker())
    recount.settle(load, fairness)
    assert len(engine.finished) > 50


# --- LoRA ------------------------------------------------------------------------


@BOTH
def test_a_request_whose_adapter_has_no_place_is_skipped_until_there_is_one(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async, adapters=1)
    engine.add(features.with_adapter(harness.request("one", 40, 40, tenant="silver"), 1))
    engine.step()
    engine.add(
        features.with_adapter(harness.request("two", 40, 4, tenant="gold"), 2),
        harness.request("none", 40, 4, tenant="gold"),
        features.with_adapter(harness.request("one again", 40, 4, tenant="gold"), 1),
    )
    for _ in range(20):
        engine.step()
    assert {"none", "one again"} <= engine.finished.keys()
    assert "two" not in engine.first
    engine.drain()
    assert engine.first["two"] >= engine.finished["one"]


@BOTH
def test_a_request_whose_adapter_has_no_place_holds_up_no_prompt_of_another_tenant(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async, adapters=1)
    engine.add(harness.request("warm", 10, 1, tenant="gold"))
    engine.drain()
    engine.add(features.with_adapter(harness.request("long", 900, 4, tenant="silver"), 1))
    engine.step()
    engine.add(features.with_adapter(harness.request("two", 200, 4, tenant="gold"), 2))
    shots = [engine.step() for _ in range(3)]
    assert all(shot.tokens.get("long", 0) > 30 for shot in shots)
    engine.drain()
    assert engine.tokens_by_request == {"warm": 1, "long": 4, "two": 4}


# --- speculative decoding ----------------------------------------------------------


@BOTH
def test_drafts_that_are_rejected_are_not_charged_as_output(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    config = recount.configuration("FIFO", Fairness.TOKENS)
    engine = features.engine(
        config, features.Options(drafts=3), use_async=use_async, kind=features.Drafting
    )
    engine.watch()
    for number in range(6):
        tenant = recount.TENANTS[number % 2]
        engine.add(harness.request(f"r{number}", 40, 50, tenant=tenant))
    engine.drain()
    assert engine.accepted < engine.drafted
    assert engine.generated == {"gold": 150, "silver": 150}
    assert engine.charged == pytest.approx({"gold": 420.0, "silver": 420.0})


# --- structured output ---------------------------------------------------------------


@BOTH
def test_a_request_starts_when_its_grammar_is_ready_and_not_before(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    json, grammar = features.structured("json", 40, 4, tenant="gold")
    engine.add(json)
    refill = harness.backlog(["gold", "silver"], 10, 100, 10)
    engine.run(1.0, refill)
    assert json.status is features.WAITS_FOR_GRAMMAR
    assert len(engine.finished) > 20
    grammar.set_result(features.Grammar())
    engine.run(0.5, refill)
    assert engine.tokens_by_request["json"] == 4


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_under_every_ordering_it_starts_within_two_steps_of_its_grammar(
    features: Any, recount: Any, harness: Any, ordering: str
) -> None:
    config = recount.configuration(ordering)
    engine = features.engine(config, features.Options(), use_async=False)
    json, grammar = features.structured("json", 40, 4, tenant="gold")
    engine.add(json)
    refill = harness.backlog(["gold", "silver"], 3, 20, 5)
    for _ in range(5):
        refill(engine)
        assert "json" not in engine.step().tokens
    assert len(engine.first) > 3
    grammar.set_result(features.Grammar())
    assert any("json" in engine.step().tokens for _ in range(2))
    engine.drain()
    assert engine.tokens_by_request["json"] == 4


@BOTH
def test_a_grammar_that_cannot_be_compiled_ends_its_request_only(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    json, grammar = features.structured("json", 40, 4, tenant="gold")
    grammar.set_exception(ValueError("no grammar"))
    engine.add(json, harness.request("text", 40, 4, tenant="silver"))
    engine.drain()
    assert engine.tokens_by_request["json"] == 0
    assert engine.tokens_by_request["text"] == 4
    harness.assert_empty(engine)


# --- pause and cache reset -------------------------------------------------------------


def busy(engine: Any, harness: Any, recount: Any, number: int, prompt: int, output: int) -> None:
    """Let the engine be at work on so many requests of two tenants."""
    for each in range(number):
        tenant = recount.TENANTS[each % 2]
        engine.add(harness.request(f"r{each}", prompt, output, tenant=tenant))
    for _ in range(6):
        engine.step()


@BOTH
def test_a_pause_for_new_requests_lets_those_that_run_go_on(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    busy(engine, harness, recount, 20, 20, 10)
    running = {each.request_id for each in engine.scheduler.running}
    engine.scheduler.set_pause_state(harness.PAUSED_NEW)
    engine.drain()
    assert engine.finished.keys() == running != set()
    engine.scheduler.set_pause_state(harness.UNPAUSED)
    engine.drain()
    assert len(engine.finished) == 20


@BOTH
def test_in_a_pause_for_all_nobody_is_served_and_nobody_is_late_after_it(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    busy(engine, harness, recount, 30, 20, 20)
    engine.scheduler.set_pause_state(harness.PAUSED)
    engine.step()
    done = len(engine.finished)
    assert [engine.step().tokens for _ in range(5)] == [{}] * 5
    assert len(engine.finished) == done
    engine.idle(30.0)
    engine.scheduler.set_pause_state(harness.UNPAUSED)
    engine.drain()
    harness.assert_empty(engine)
    assert len(engine.finished) == 30
    assert not sum(engine.values("tenantry_inversions").values())


@BOTH
def test_a_reset_of_the_cache_sends_all_back_and_costs_nobody_a_token(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    busy(engine, harness, recount, 10, 60, 12)
    running = Counter(harness.tenant_of(each) for each in engine.scheduler.running)
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    engine.drain()
    assert engine.tokens_by_request == {f"r{number}": 12 for number in range(10)}
    sent = engine.values("tenantry_preemptions")
    assert {t: n for (t, cause, _), n in sent.items() if cause == "reset" and n} == running


# --- prefixes, samples, sessions ----------------------------------------------------


@BOTH
def test_a_prefix_that_is_cached_costs_its_tenant_nothing_and_no_other_tenant_hits_it(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    prompt = harness.own_ids("shared", 160)
    for name, tenant in (("a", "gold"), ("b", "gold"), ("c", "silver")):
        engine.add(harness.request(name, prompt, 2, tenant=tenant))
        engine.drain()
    tokens = engine.values("tenantry_tokens")
    assert (tokens["gold", "cached"], tokens["gold", "prompt"]) == (144, 160 + 16)
    assert (tokens["silver", "cached"], tokens["silver", "prompt"]) == (0, 160)


@BOTH
def test_the_samples_of_one_request_count_one_by_one_and_may_be_aborted_together(
    features: Any, recount: Any, harness: Any, use_async: bool
) -> None:
    engine = made(features, recount, use_async)
    prompt = harness.own_ids("parent", 40)
    children = [harness.request(f"{child}_r", prompt, 90, tenant="gold") for child in range(3)]
    engine.add(*children, harness.request("other", 40, 20, tenant="silver"))
    for _ in range(6):
        engine.step()
    assert engine.conductor.book.presence.of("gold") == (3, 0)
    engine.scheduler.finish_requests([each.request_id for each in children], harness.ABORTED)
    engine.drain()
    engine.step()
    assert engine.tokens_by_request["other"] == 20
    harness.assert_empty(engine)
    assert not any(engine.values("tenantry_running_requests").values())


def test_without_chunked_prefill_every_prompt_is_whole_in_one_step(
    features: Any, recount: Any, harness: Any
) -> None:
    options = features.Options(chunked=False)
    engine = features.engine(recount.configuration("FIFO"), options, features.WIDE, use_async=False)
    for number in range(12):
        tenant = recount.TENANTS[number % 2]
        engine.add(harness.request(f"r{number}", 200 + number, 8, tenant=tenant))
    engine.drain()
    for number in range(12):
        given = [shot.tokens[f"r{number}"] for shot in engine.log if f"r{number}" in shot.tokens]
        assert given[0] == 200 + number


def test_a_session_that_waits_for_input_keeps_its_seat_and_counts_as_its_tenant_s(
    features: Any, recount: Any, harness: Any
) -> None:
    engine = made(features, recount, use_async=False)
    engine.add(features.part("s", 40, 5, tenant="gold"))
    engine.add(harness.request("r", 40, 30, tenant="silver"))
    for _ in range(10):
        engine.step()
    assert engine.scheduler.requests["s"].status is features.WAITS_FOR_INPUT
    engine.idle(2.0)
    engine.step()
    assert engine.values("tenantry_running_requests")["gold",] == 0
    assert engine.values("tenantry_waiting_requests")["gold",] == 1
    for number in range(20):
        engine.add(harness.request(f"r{number}", 20, 10, tenant="silver"))
    for _ in range(5):
        engine.step()
        assert len(engine.scheduler.running) < recount.SIZE.seats
    engine.add(features.part("s", 20, 5, tenant="gold"))
    engine.drain()
    assert engine.generated == {"gold": 10, "silver": 230}
    engine.scheduler.finish_requests("s", harness.ABORTED)
    engine.step()
    harness.assert_empty(engine)


# --- the plan keeps to what vLLM can do ------------------------------------------------


def test_chunks_of_a_hybrid_model_are_left_to_vllm(
    features: Any, recount: Any, harness: Any
) -> None:
    engine = made(features, recount, use_async=False, aligned=128)
    for number in range(6):
        engine.add(harness.request(f"d{number}", 10, 20, tenant="gold"))
    for _ in range(3):
        engine.step()
    engine.add(harness.request("long", 600, 2, tenant="silver"))
    given = [engine.step().tokens.get("long", 0) for _ in range(5)]
    assert given == [128, 128, 128, 128, 88]
