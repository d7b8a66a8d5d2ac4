"""Start-time fair queueing: who is served next, and what coming back is worth."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.ledger import BACKGROUND, FOREGROUND, Ledger

CREDIT = 0.001
NAMES = st.sampled_from(["a", "b", "c", "d"])
COSTS = st.floats(min_value=0.001, max_value=1.0)
WEIGHTS = st.fixed_dictionaries({name: st.sampled_from([0.5, 1.0, 2.0, 7.0]) for name in "abcd"})


def a_ledger(**weights: float) -> Ledger:
    return Ledger(lambda tenant: weights.get(tenant, 1.0), CREDIT)


def serve(ledger: Ledger, tenants: Sequence[str], costs: list[float]) -> Mapping[str, float]:
    """Serve the least served of the tenants, all of whom always have work."""
    served: defaultdict[str, float] = defaultdict(float)
    for cost in costs:
        ledger.attend(tenants)
        first = min(ledger.rank(tenant) for tenant in tenants).tenant
        ledger.charge(first, cost)
        served[first] += cost
    return served


@given(WEIGHTS, st.lists(COSTS, min_size=1, max_size=200))
def test_two_backlogged_tenants_never_drift_apart_by_more_than_one_step_of_each(
    weights: Mapping[str, float], costs: list[float]
) -> None:
    served = serve(a_ledger(**weights), "abcd", costs)
    largest = max(costs)
    for f in "abcd":
        for g in "abcd":
            gap = abs(served[f] / weights[f] - served[g] / weights[g])
            assert gap <= largest / weights[f] + largest / weights[g] + CREDIT * 4


@given(WEIGHTS, st.lists(st.tuples(NAMES, COSTS), max_size=100))
def test_a_tag_is_the_sum_of_the_charges_by_weight(
    weights: Mapping[str, float], charges: list[tuple[str, float]]
) -> None:
    ledger = a_ledger(**weights)
    ledger.attend("abcd")
    start = {name: ledger.rank(name).tag for name in "abcd"}
    for tenant, cost in charges:
        ledger.charge(tenant, cost)
    for name in "abcd":
        expected = sum(cost for tenant, cost in charges if tenant == name) / weights[name]
        assert ledger.rank(name).tag - start[name] == pytest.approx(expected)


@given(WEIGHTS, st.lists(st.tuples(st.sets(NAMES), NAMES, COSTS), max_size=60))
def test_idling_banks_no_credit(
    weights: Mapping[str, float], story: list[tuple[set[str], str, float]]
) -> None:
    ledger = a_ledger(**weights)
    before: set[str] = set()
    for present, served, cost in story:
        others = [ledger.rank(tenant).tag for tenant in before]
        ledger.attend(present)
        for tenant in present - before:
            least = min(others, default=0.0)
            assert ledger.rank(tenant).tag >= least - CREDIT / weights[tenant] - 1e-9
        if served in present:
            ledger.charge(served, cost)
        before = present


def test_a_newcomer_goes_before_those_with_whom_it_draws_level() -> None:
    ledger = a_ledger()
    ledger.attend("b")
    ledger.charge("b", 10.0)
    ledger.attend("bz")
    assert ledger.rank("z") < ledger.rank("b")
    assert ledger.rank("z").tag == pytest.approx(10.0, abs=3 * CREDIT)


def test_a_tenant_that_only_runs_counts_for_the_lift() -> None:
    ledger = a_ledger()
    ledger.attend(["busy"])
    for _ in range(5):
        ledger.charge("busy", 1.0)
    ledger.attend(["busy", "new"])
    assert ledger.rank("new").tag > 4.9


def test_an_engine_that_stood_idle_starts_everybody_level() -> None:
    ledger = a_ledger()
    ledger.attend("a")
    ledger.charge("a", 50.0)
    ledger.attend("")
    ledger.attend("b")
    assert ledger.rank("b").tag == pytest.approx(50.0, abs=3 * CREDIT)


def test_a_debt_stays() -> None:
    ledger = a_ledger()
    ledger.attend("ab")
    ledger.charge("a", 100.0)
    ledger.charge("b", 1.0)
    ledger.attend("b")
    ledger.attend("ab")
    assert ledger.rank("a").tag > 90


def test_a_correction_takes_back_what_was_charged_too_much() -> None:
    ledger = a_ledger(a=2.0)
    ledger.attend("a")
    start = ledger.rank("a").tag
    ledger.charge("a", 3.0)
    ledger.charge("a", -1.0)
    assert ledger.rank("a").tag == pytest.approx(start + 1.0)


def test_weight_zero_stands_behind_everybody_however_much_they_were_served() -> None:
    ledger = a_ledger(idle=0.0)
    ledger.attend(["idle", "paying"])
    ledger.charge("paying", 1e6)
    assert ledger.rank("idle").band == BACKGROUND
    assert ledger.rank("paying") < ledger.rank("idle")


def test_weights_of_zero_share_alike() -> None:
    ledger = a_ledger(a=0.0, b=0.0)
    served = serve(ledger, "ab", [0.1] * 100)
    assert served["a"] == pytest.approx(served["b"])


def test_new_weights_hold_from_now_on() -> None:
    ledger = a_ledger(a=3.0, b=1.0)
    first = serve(ledger, "ab", [0.01] * 4000)
    ledger.reweigh(lambda tenant: {"a": 1.0, "b": 3.0}[tenant])
    then = serve(ledger, "ab", [0.01] * 4000)
    assert first["a"] / first["b"] == pytest.approx(3.0, rel=0.01)
    assert then["b"] / then["a"] == pytest.approx(3.0, rel=0.01)


def test_a_tenant_that_leaves_the_background_starts_level_with_the_others() -> None:
    ledger = a_ledger(a=0.0, b=1.0)
    ledger.attend("ab")
    ledger.charge("b", 40.0)
    ledger.reweigh(lambda _: 1.0)
    ledger.attend("ab")
    assert ledger.rank("a").band == FOREGROUND
    assert ledger.rank("a").tag == pytest.approx(40.0, abs=3 * CREDIT)


@pytest.mark.parametrize(
    ("weights", "costs"),
    [
        ({"a": 1.0, "b": 99.0}, {"a": 4.0, "b": 100.0}),
        ({"a": 0.001, "b": 1e6}, {"a": 1e-3, "b": 999_999.0}),
        ({"a": 1e7, "b": 1e13}, {"a": 1.000001, "b": 1e6}),
    ],
    ids=["1 and 99", "the least and the most", "beyond what a policy may say"],
)
def test_what_was_served_by_weight_is_no_whole_number_that_could_be_alike(
    weights: Mapping[str, float], costs: Mapping[str, float]
) -> None:
    ledger = a_ledger(**weights)
    ledger.attend("ab")
    begin = {tenant: ledger.rank(tenant).tag for tenant in "ab"}
    for tenant in "ab":
        ledger.charge(tenant, costs[tenant])
    a, b = (ledger.rank(tenant).tag - begin[tenant] for tenant in "ab")
    assert b < a


def test_of_equals_the_first_by_name_goes_first() -> None:
    ledger = a_ledger()
    ledger.attend("ba")
    assert ledger.rank("a") < ledger.rank("b")


def test_a_tenant_that_is_forgotten_comes_back_without_credit() -> None:
    ledger = a_ledger()
    ledger.attend("ab")
    ledger.charge("a", 5.0)
    ledger.charge("b", 7.0)
    ledger.attend("b")
    ledger.forget(keep=[])
    ledger.attend("ab")
    assert ledger.rank("a").tag == pytest.approx(7.0, abs=3 * CREDIT)


def test_long_service_at_a_tiny_weight_does_not_blind_the_scheduler_for_heavy_tenants() -> None:
    ledger = a_ledger(tiny=0.001, a=1e6, b=1e6)
    for _ in range(100):
        ledger.attend(["tiny"])
        ledger.charge("tiny", 1e7)
    served = serve(ledger, ["tiny", "a", "b"], [32.0] * 1000)
    assert served["a"] == pytest.approx(served["b"], abs=32.0)


@given(st.lists(st.tuples(NAMES, st.floats(1.0, 1e7)), min_size=1, max_size=80))
def test_counting_anew_changes_nothing_in_who_comes_first(
    charges: list[tuple[str, float]],
) -> None:
    large, small = a_ledger(), Ledger(lambda _: 1.0, CREDIT / 1e7)
    for present, cost in charges:
        for ledger, unit in ((large, 1.0), (small, 1e7)):
            ledger.attend({present, "a"})
            ledger.charge(present, round(cost) / unit)
        gap = large.rank("a").tag - large.rank(present).tag
        assert gap == pytest.approx((small.rank("a").tag - small.rank(present).tag) * 1e7, abs=1e-3)


CHANGES = st.tuples(
    st.sets(NAMES, min_size=1), NAMES, st.floats(-1.0, 1.0), st.sampled_from([0.001, 1.0, 1e6])
)


@given(WEIGHTS, st.sets(NAMES), st.lists(CHANGES, max_size=60), st.sampled_from([0.0, 50.0]))
def test_who_precedes_is_told_as_if_all_tags_were_read_each_time(
    weights: Mapping[str, float],
    background: set[str],
    changes: list[tuple[set[str], str, float, float]],
    by: float,
) -> None:
    ledger = a_ledger(**{**weights, **dict.fromkeys(background, 0.0)})
    for present, charged, cost, unit in changes:
        ledger.attend(present)
        ledger.charge(charged, cost * unit)
        ledger.settle(())
        for band, tag, _ in ledger.line(present):
            for asked in (present, {min(present)}):
                least = min(ledger.line(asked))[:2]
                expected = least < (band, tag - by * CREDIT)
                assert ledger.precedes(asked, (band, tag, ""), by) == expected
