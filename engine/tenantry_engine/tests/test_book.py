"""The books: charged as predicted, corrected as measured, shown as shares."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tenantry_api.choices import Fairness
from tenantry_core.stepmodel import Load
from tenantry_engine.book import Book
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics
from tenantry_engine.translate import Reading, Served


def book_config(fairness: Fairness = Fairness.GPU_TIME, **weights: float) -> EngineConfig:
    named = weights or {"a": 1.0, "b": 1.0}
    return EngineConfig(weights=named, tenants=tuple(named), fairness=fairness)


def a_book(*, fairness: Fairness = Fairness.GPU_TIME, **weights: float) -> Book:
    config = book_config(fairness, **weights)
    return Book(config, EngineMetrics(config, CollectorRegistry()))


def values(book: Book, name: str) -> dict[Any, float]:
    return {
        sample.labels.get("tenant", ""): sample.value
        for family in book.metrics.collect()
        for sample in family.samples
        if sample.name in (name, f"{name}_total")
    }


def a_step(book: Book, served: dict[str, Served], seconds: float, *, at: float = 0.0) -> None:
    output = object()
    book.attend(at, frozenset(served))
    book.begun(output, a_reading(**served), at)
    book.ended(output, {}, at + seconds)


def a_reading(**served: Served) -> Reading:
    """What a step gave: tokens of decode, or parts of prompts."""
    decodes = {tenant: each.decodes for tenant, each in served.items() if each.decodes}
    context = {tenant: served[tenant].context for tenant in decodes}
    prompts = {tenant: each for tenant, each in served.items() if tenant not in decodes}
    return Reading(
        decodes=decodes,
        origins=context,
        prompts=prompts,
        tokens=sum(decodes.values()),
        total=sum(context.values()),
    )


CHAT = Served(decodes=1, context=100)
DOCUMENT = Served(prefill=500, context=500, prompt=500, queried=500)


def test_a_step_costs_what_it_took_whatever_was_predicted() -> None:
    book = a_book()
    a_step(book, {"a": DOCUMENT}, 2.0)
    assert book.ledger.rank("a").tag == pytest.approx(2.0, abs=0.01)


def test_the_parts_of_all_steps_add_up_to_their_time() -> None:
    book = a_book()
    for number in range(50):
        a_step(book, {"a": CHAT, "b": DOCUMENT}, 0.01 + 0.001 * number, at=float(number))
    book.report()
    total = values(book, "tenantry_step_seconds_sum")[""]
    assert sum(values(book, "tenantry_gpu_seconds").values()) == pytest.approx(total, rel=1e-12)


def test_what_wrong_prices_took_is_taken_back_while_charges_depend_on_prices() -> None:
    book = a_book()
    shared = {"a": CHAT, "b": DOCUMENT}
    a_step(book, shared, 0.05)
    owed = moved_by(book, dearer_decodes)
    assert owed["a"] > 0.0
    assert sum(owed.values()) == pytest.approx(0.0, abs=1e-12)
    a_step(book, shared, 0.05, at=2.0)
    book.reconfigure(replace(book_config(), fairness=Fairness.TOKENS))
    a_step(book, shared, 0.05, at=3.0)
    assert not any(moved_by(book, dearer_decodes, at=4.0).values())
    book.reconfigure(book_config())
    book.attend(5.0, frozenset(shared))
    assert not any(moved_by(book, dearer_decodes, at=6.0).values())


def dearer_decodes(book: Book) -> None:
    """Steps that show a decode to cost more than was known."""
    for _ in range(64):
        book.model.observe(Load(decodes=64), 0.05)
        book.model.observe(Load(prefill=64), 0.015)


def moved_by(book: Book, learn: Callable[[Book], None], at: float = 1.0) -> dict[str, float]:
    """How far tags move when something has been learned."""
    before = {tenant: book.ledger.rank(tenant).tag for tenant in ("a", "b")}
    learn(book)
    book.tidy(at)
    return {tenant: book.ledger.rank(tenant).tag - tag for tenant, tag in before.items()}


def test_two_steps_under_way_are_not_counted_twice() -> None:
    book = a_book()
    first, second = object(), object()
    book.attend(0.0, frozenset("a"))
    book.begun(first, a_reading(a=CHAT), 0.0)
    book.begun(second, a_reading(a=CHAT), 0.1)
    book.ended(first, {"a": 1}, 1.0)
    book.ended(second, {"a": 1}, 1.5)
    assert values(book, "tenantry_step_seconds_sum")[""] == pytest.approx(1.5)


def test_a_step_that_never_comes_back_does_not_hold_up_the_next() -> None:
    book = a_book()
    book.attend(0.0, frozenset("a"))
    book.begun(object(), a_reading(a=CHAT), 0.0)
    a_step(book, {"a": CHAT}, 0.5, at=10.0)
    assert values(book, "tenantry_step_seconds_sum")[""] == pytest.approx(0.5)


def test_tokens_are_two_for_an_output_and_one_for_a_prompt() -> None:
    book = a_book(fairness=Fairness.TOKENS)
    output = object()
    book.attend(0.0, frozenset("ab"))
    start = book.ledger.rank("a").tag
    book.begun(output, a_reading(a=DOCUMENT, b=CHAT), 0.0)
    book.ended(output, {"a": 1, "b": 1}, 1.0)
    assert book.ledger.rank("a").tag - start == pytest.approx(502)
    assert book.ledger.rank("b").tag - start == pytest.approx(2)


def test_another_unit_of_charge_starts_everybody_level() -> None:
    book = a_book()
    a_step(book, {"a": DOCUMENT}, 9.0)
    config = EngineConfig(weights={"a": 1, "b": 1}, tenants=("a", "b"), fairness=Fairness.TOKENS)
    book.reconfigure(config)
    book.attend(10.0, frozenset("ab"))
    assert book.ledger.rank("a").tag == book.ledger.rank("b").tag


def test_a_tenant_that_never_waits_is_entitled_to_what_it_had() -> None:
    book = a_book(quiet=1, noisy=1)
    for number in range(100):
        at = number * 0.1
        served = {"noisy": DOCUMENT} | ({"quiet": CHAT} if number % 10 == 0 else {})
        a_step(book, served, 0.1, at=at)
        book.presence.scheduled(at, ["noisy"])
    book.report()
    assert values(book, "tenantry_fairness_jain_index")[""] == pytest.approx(1.0)


def test_two_backlogged_tenants_are_entitled_by_weight() -> None:
    book = a_book(gold=3, free=1)
    for number in range(100):
        at = number * 0.1
        a_step(book, {"gold": DOCUMENT, "free": DOCUMENT}, 0.1, at=at)
        book.presence.scheduled(at, ["gold", "free"])
    book.report()
    ratios = {
        (sample.labels["tenant"], sample.labels["kind"]): sample.value
        for family in book.metrics.collect()
        for sample in family.samples
        if sample.name == "tenantry_share_ratio"
    }
    assert ratios["gold", "declared"] == ratios["gold", "entitled"] == pytest.approx(0.75)
    assert ratios["gold", "attained"] == pytest.approx(0.5)
    assert values(book, "tenantry_fairness_jain_index")[""] == pytest.approx(0.8)
