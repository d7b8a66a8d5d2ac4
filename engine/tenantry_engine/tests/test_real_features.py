"""Samples, aborts and structured output on the real engine: our scheduler changes no token."""

from typing import Any

import pytest

from tenantry_engine.tests import real_engine, real_features

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What each load came to."""
    run = real_engine.begin("tenantry_engine.tests.real_features", "--here")
    return dict(real_engine.found(run))


@pytest.mark.parametrize("load", real_features.LOADS)
def test_our_scheduler_was_at_work_under_pressure_and_left_nothing(
    results: dict[str, Any], load: str
) -> None:
    ours = results[f"{load} ours"]
    assert ours["scheduler"] == "FairScheduler"
    assert ours["preemptions"] > 0
    assert ours["left"] == 0


def test_each_of_two_samples_is_what_it_is_without_us(results: dict[str, Any]) -> None:
    ours, stock = results["samples ours"]["tokens"], results["samples stock"]["tokens"]
    assert ours == stock
    assert len(ours) == 2 * real_features.REQUESTS


def test_who_is_not_given_up_gets_the_same_tokens_and_who_is_gets_the_first_of_them(
    results: dict[str, Any],
) -> None:
    ours, stock = results["aborts ours"]["tokens"], results["aborts stock"]["tokens"]
    kept = [name for name in ours if int(name.split()[1]) % 3]
    assert {name: ours[name] for name in kept} == {name: stock[name] for name in kept}
    for name in ours.keys() - set(kept):
        length = min(len(ours[name]), len(stock[name]))
        assert ours[name][:length] == stock[name][:length]


def test_structured_answers_are_the_same(results: dict[str, Any]) -> None:
    ours, stock = results["structured ours"]["tokens"], results["structured stock"]["tokens"]
    assert ours == stock
    assert all(ours.values())
