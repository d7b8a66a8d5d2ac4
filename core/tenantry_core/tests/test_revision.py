"""What payers owe when prices have changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.revision import MEMORY, Revision, Row
from tenantry_core.stepmodel import Load, Prices
from tenantry_core.tests import a100
from tenantry_core.tests.loads import LOADS

WRONG = Prices(70e-6, 5e-8, 4e-9)
RIGHT = Prices(35e-6, 8e-8, 2e-9)
FOREVER = 1e12

STEPS = st.lists(st.dictionaries(st.sampled_from("abc"), LOADS, min_size=1), max_size=20)
PRICES = st.builds(Prices, *[st.floats(0.0, 1e-3)] * 3)


def rows(loads: dict[str, Load]) -> list[Row[str]]:
    return [(p, x.tokens, x.decodes, x.context, x.work) for p, x in loads.items()]


def whole(loads: dict[str, Load]) -> Load:
    return sum(loads.values(), Load())


def fair(seconds: float, loads: dict[str, Load], prices: Prices) -> dict[str, float]:
    """Recounted by the words: each its own, and the rest by tokens."""
    own = {p: prices.of(load.decodes, load.context, load.work) for p, load in loads.items()}
    rest = seconds - sum(own.values())
    return {p: own[p] + rest * loads[p].tokens / whole(loads).tokens for p in loads}


@given(STEPS, PRICES, PRICES)
def test_in_the_end_everybody_has_paid_by_the_last_prices(
    steps: list[dict[str, Load]], first: Prices, last: Prices
) -> None:
    revision = Revision[str](FOREVER)
    paid, due = dict.fromkeys("abc", 0.0), dict.fromkeys("abc", 0.0)
    for loads in steps:
        if not whole(loads).tokens:
            continue
        revision.paid(whole(loads), rows(loads), first)
        for payer, part in fair(1.0, loads, first).items():
            paid[payer] += part
        for payer, part in fair(1.0, loads, last).items():
            due[payer] += part
    for payer, owed in revision.settle(last, now=0.0).items():
        paid[payer] += owed
    assert paid == pytest.approx(due, rel=1e-9, abs=1e-9)


@given(STEPS, PRICES, PRICES)
def test_what_some_owe_others_get(
    steps: list[dict[str, Load]], first: Prices, last: Prices
) -> None:
    revision = Revision[str]()
    for loads in steps:
        revision.paid(whole(loads), rows(loads), first)
    owed = revision.settle(last, now=1.0)
    # Of large sums that nearly cancel the rounding is left, however little is owed.
    had = [whole(loads) for loads in steps]
    reckoned = sum(p.of(x.decodes, x.context, x.work) for p in (first, last) for x in had)
    assert sum(owed.values()) == pytest.approx(0.0, abs=1e-12 * (1.0 + reckoned))


def test_nobody_owes_twice_and_prices_that_stay_cost_nothing() -> None:
    revision = Revision[str](FOREVER)
    loads = {"chat": Load(0, 40, 60_000), "document": Load(200, work=1e5)}
    revision.paid(whole(loads), rows(loads), WRONG)
    assert revision.settle(WRONG, now=0.0) == pytest.approx({"chat": 0.0, "document": 0.0})
    first = revision.settle(RIGHT, now=1.0)
    assert first["chat"] == pytest.approx(-first["document"]) != 0.0
    assert revision.settle(RIGHT, now=2.0) == pytest.approx({"chat": 0.0, "document": 0.0})
    back = revision.settle(WRONG, now=3.0)
    assert back["chat"] == pytest.approx(-first["chat"])


def test_what_was_long_ago_is_not_taken_up_again() -> None:
    revision = Revision[str]()
    loads = {"chat": Load(0, 40, 60_000), "document": Load(200, work=1e5)}
    revision.paid(whole(loads), rows(loads), WRONG)
    revision.settle(WRONG, now=0.0)
    revision.settle(WRONG, now=60 * MEMORY)
    assert revision.settle(RIGHT, now=60 * MEMORY + 1.0) == {}


def test_a_step_without_tokens_is_nobody_s() -> None:
    revision = Revision[str]()
    revision.paid(Load(), rows({"chat": Load()}), WRONG)
    assert revision.settle(RIGHT, now=0.0) == {}


def test_a_clock_that_goes_back_makes_nothing_larger() -> None:
    revision = Revision[str]()
    loads = {"chat": Load(0, 40, 60_000), "document": Load(200, work=1e5)}
    revision.paid(whole(loads), rows(loads), WRONG)
    revision.settle(WRONG, now=100.0)
    owed = revision.settle(RIGHT, now=0.0)
    assert abs(owed["chat"]) == pytest.approx(
        abs(fair(1.0, loads, RIGHT)["chat"] - fair(1.0, loads, WRONG)["chat"])
    )


def test_the_true_costs_of_the_imitated_gpu_are_linear_in_this_way() -> None:
    loads = {"chat": Load(0, 40, 60_000), "document": Load(200, work=1e5)}
    prices = Prices(a100.SEQUENCE, a100.CONTEXT, a100.ATTENTION)
    parts = fair(a100.seconds(whole(loads)), loads, prices)
    rest = a100.seconds(Load(240)) * 200 / 240
    assert parts["document"] == pytest.approx(rest + a100.ATTENTION * 1e5)
