"""The service-gap bound of `docs/design/003-service-gap.md`, on the real ledger.

An abstract engine serves by rank; what it gives is counted from scratch. Controls that lack a part
of the ledger break the bound, so that these tests can fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry_core.ledger import BACKGROUND, BURST, FLOOR, QUANTUM, TIERS, Ledger
from tenantry_core.tests.lots import Lots
from tenantry_core.tests.stepped import Gap, Rules, Server, Step, gaps

CREDIT = 0.001
ROUNDING = 1e-6
NAMES = ("a", "b", "c", "d")
SEEDS = st.integers(0, 2**32)
WEIGHTS = st.fixed_dictionaries({name: st.sampled_from([0.5, 1.0, 2.0, 4.0]) for name in NAMES})
ENGINES = st.builds(
    Rules,
    longest=st.just(1.0),
    depth=st.integers(0, 2),
    off=st.sampled_from([1.0, 1.2, 3.0]),
    seats=st.integers(1, 4),
    token=st.sampled_from([0.0, 0.01, 0.03]),
    tail=st.sampled_from([0, 1, 10, 50]),
)
PLAIN = Rules()
MANY_STEPS = settings(deadline=None, max_examples=60)


def a_server(
    weights: Mapping[str, float],
    rules: Rules,
    seed: int = 0,
    tier: Callable[[str], int] = lambda _: 0,
) -> Server:
    live = dict(weights)
    return Server(Ledger(live.__getitem__, CREDIT, tier), live, rules, Lots(seed))


def coming_and_going(server: Server, steps: int, *, reweigh: bool = False) -> list[Step]:
    """Everybody asks in bursts, is done and gone for a step, and asks again; weights may change."""
    lots, names = server.lots, sorted(server.weights)
    log: list[Step] = []
    for _ in range(steps):
        tenant = lots.pick(names)
        gone = not log or tenant not in log[-1].ranks
        if lots.uniform() < 0.1 and (gone or server.prompts[tenant]):
            for _ in range(1 + lots.below(10)):
                server.ask(tenant, lots.uniform(0.01, 4.0))
        if reweigh and lots.uniform() < 0.02:
            server.reweigh({lots.pick(names): lots.pick([0.5, 1.0, 2.0, 4.0])})
        log.append(server.step())
    return log


def at_random(server: Server, steps: int) -> list[Step]:
    """Anybody asks for anything at any time."""
    lots, names = server.lots, sorted(server.weights)
    log = []
    for _ in range(steps):
        for _ in range(lots.below(4)):
            server.ask(lots.pick(names), lots.pick([0.01, 0.1, 1.0]))
        log.append(server.step())
    return log


def saturated(server: Server, names: str, steps: int) -> list[Step]:
    """These always have more to do; whatever else was asked is done beside."""
    for name in names:
        server.ask(name, 1e9)
    return [server.step() for _ in range(steps)]


def waits(server: Server, tenant: str) -> float:
    """What the others are given before the tenant gets something."""
    waited = 0.0
    while not (given := server.step().given).get(tenant):
        waited += sum(given.values())
    return waited


def one_step_of_each(gap: Gap, least: Mapping[str, float], rules: Rules) -> float:
    """Theorem 1: (T + credit) / w of both."""
    return (rules.longest + CREDIT) * (1 / least[gap.f] + 1 / least[gap.g]) + ROUNDING


def least_weights(log: list[Step]) -> Mapping[str, float]:
    return {name: min(step.weights[name] for step in log) for name in log[0].weights}


# --- theorem 1: all who are here want more ---------------------------------------


@MANY_STEPS
@given(WEIGHTS, st.sampled_from([1.0, 3.0]), SEEDS)
def test_the_gap_is_at_most_one_step_of_each_whenever_both_want_more(
    weights: Mapping[str, float], off: float, seed: int
) -> None:
    server = a_server(weights, replace(PLAIN, off=off), seed)
    log = coming_and_going(server, 150, reweigh=True)
    least = least_weights(log)
    for gap in gaps(log):
        assert gap.widest <= one_step_of_each(gap, least, PLAIN)


def test_the_bound_is_reached_but_for_the_credit() -> None:
    server = a_server({"a": 1.0, "b": 4.0}, PLAIN)
    widest = max(gap.widest for gap in gaps(saturated(server, "ab", 3000)))
    assert widest > 0.9 * (1.0 / 1.0 + 1.0 / 4.0)


# --- theorem 2: steps under way, wrong predictions, tails that go on ----------------


@MANY_STEPS
@given(WEIGHTS, ENGINES, SEEDS)
def test_apart_from_where_they_start_two_tenants_stay_within_what_a_step_can_do(
    weights: Mapping[str, float], rules: Rules, seed: int
) -> None:
    log = coming_and_going(a_server(weights, rules, seed), 150, reweigh=True)
    for gap in gaps(log):
        above, below = 1 / gap.weights[gap.g], 1 / gap.weights[gap.f]
        unsure = rules.unsure * (above + below)
        once = rules.longest + rules.carried
        most = max(once * above + unsure, gap.start + rules.carried * above)
        least = max(once * below + unsure, -gap.start + rules.carried * below)
        assert -least - ROUNDING <= gap.least
        assert gap.most <= most + ROUNDING


@MANY_STEPS
@given(WEIGHTS, ENGINES, SEEDS)
def test_those_who_always_want_more_get_time_by_weight_up_to_a_constant(
    weights: Mapping[str, float], rules: Rules, seed: int
) -> None:
    rules = replace(rules, seats=1000, tail=0)  # never kept from a seat
    log = saturated(a_server(weights, rules, seed), "abcd", 150)
    for gap in gaps(log):
        both = 1 / gap.weights[gap.f] + 1 / gap.weights[gap.g]
        assert gap.widest <= (rules.longest + rules.unsure + CREDIT) * both + ROUNDING


# --- theorem 3: who asks for little ----------------------------------------------------


@MANY_STEPS
@given(WEIGHTS, ENGINES, st.sampled_from([1, 10, 40]), SEEDS)
def test_nobody_is_further_from_another_than_a_step_what_it_carries_and_a_burst(
    weights: Mapping[str, float], rules: Rules, settles: int, seed: int
) -> None:
    server = a_server(weights, replace(rules, settles=settles), seed)
    log = [*coming_and_going(server, 100), *at_random(server, 100)]
    once = rules.longest + rules.carried + 2 * rules.unsure + BURST * CREDIT
    between = settles * rules.longest / min(weights.values())
    for gap in gaps(log):
        both = 1 / gap.weights[gap.f] + 1 / gap.weights[gap.g]
        assert gap.widest <= once * both + between + ROUNDING


def after_asking_for_little(rules: Rules) -> float:
    """b asks for a hundredth of a step in each of 2,000 steps, then for all it can get. By how many
    times the gap between two that want more exceeds its bound then."""
    server = a_server({"a": 1.0, "b": 1.0}, rules)
    server.ask("a", 1e9)
    for _ in range(2000):
        server.ask("b", 0.02)
        server.step()
        server.ask("b", 0.02)
    log = saturated(server, "b", 2000)
    bound = 2 * (rules.longest + BURST * CREDIT) + rules.settles * rules.longest
    return max(gap.widest for gap in gaps(log)) / bound


def test_asking_for_little_banks_a_burst_at_most() -> None:
    assert after_asking_for_little(Rules(settles=20)) <= 1.0


def after_idle_capacity(rules: Rules) -> float:
    """a has used, for 1,000 steps, what "light" left over; then b comes. What a gets of 200 steps,
    by what it ought to get."""
    server = a_server({"a": 1.0, "b": 1.0, "light": 1.0}, rules)
    server.ask("a", 1e9)
    served = 0.0
    for step in range(1200):
        server.ask("light", 0.01)
        if step == 1000:
            server.ask("b", 1e9)
        given = server.step().given
        served += given["a"] if step >= 1000 else 0.0
    return served / (0.5 * 200 * 0.5)


def test_nobody_pays_a_newcomer_for_the_time_that_it_took_when_it_was_idle() -> None:
    assert after_idle_capacity(PLAIN) == pytest.approx(1.0, rel=0.15)


# --- coming back ---------------------------------------------------------------


@MANY_STEPS
@given(WEIGHTS, ENGINES, st.integers(0, 200), SEEDS)
def test_who_owes_nothing_is_served_first_but_for_what_is_under_way(
    weights: Mapping[str, float], rules: Rules, away: int, seed: int
) -> None:
    server = a_server(weights, replace(rules, tail=0), seed)
    saturated(server, "abc", 20 + away)
    server.ask("d", 1.0)
    least = min(weights.values())
    corrected = sum(weights[other] / least * rules.unsure + rules.longest for other in "abc")
    assert waits(server, "d") <= (corrected if rules.depth else 0.0)


@MANY_STEPS
@given(WEIGHTS, SEEDS, st.integers(1, 100))
def test_who_comes_back_with_a_debt_waits_for_two_steps_of_each_by_weight_at_most(
    weights: Mapping[str, float], seed: int, before: int
) -> None:
    server = a_server(weights, PLAIN, seed)
    server.ask("d", server.lots.uniform(0.01, 20.0))
    saturated(server, "abc", before)
    while server.prompts["d"]:
        server.step()
    server.step()
    server.ask("d", 1.0)
    step_each = sum(1 + weights[other] / weights["d"] for other in "abc") * PLAIN.longest
    assert waits(server, "d") <= step_each + 3 * CREDIT + ROUNDING


# --- bands -----------------------------------------------------------------------


@MANY_STEPS
@given(st.lists(st.integers(0, TIERS - 1), min_size=4, max_size=4), SEEDS)
def test_a_tier_that_wants_more_gets_its_floor_whatever_the_higher_ones_ask(
    tiers: list[int], seed: int
) -> None:
    tier_of = dict(zip(NAMES, tiers, strict=True))
    server = a_server(dict.fromkeys(NAMES, 1.0), PLAIN, seed, tier_of.__getitem__)
    log = saturated(server, "abcd", 250)
    for tier in set(tiers):
        owed = 0.0
        for step in log:
            mine = sum(cost for t, cost in step.given.items() if tier_of[t] == tier)
            owed = max(owed + FLOOR * sum(step.given.values()) - mine, 0.0)
            assert owed <= QUANTUM * CREDIT + PLAIN.longest


@MANY_STEPS
@given(st.lists(st.integers(0, TIERS - 1), min_size=4, max_size=4), WEIGHTS, SEEDS)
def test_inside_a_tier_the_gap_is_that_of_one_step_of_each(
    tiers: list[int], weights: Mapping[str, float], seed: int
) -> None:
    tier_of = dict(zip(NAMES, tiers, strict=True))
    log = saturated(a_server(weights, PLAIN, seed, tier_of.__getitem__), "abcd", 150)
    for gap in gaps(log):
        if tier_of[gap.f] == tier_of[gap.g]:
            assert gap.widest <= one_step_of_each(gap, weights, PLAIN)


@MANY_STEPS
@given(SEEDS)
def test_weight_zero_is_given_nothing_in_a_step_in_which_another_wants_more(seed: int) -> None:
    server = a_server({"a": 1.0, "b": 2.0, "c": 0.0, "d": 0.0}, PLAIN, seed)
    log = coming_and_going(server, 150)
    server.ask("c", 1.0)
    while server.prompts["c"]:
        log.append(server.step())
    assert any(step.given.get("c", 0) > 0 for step in log)
    for step in log:
        if step.backlogged & {"a", "b"}:
            assert not any(step.given.get(idle, 0) for idle in "cd")
            assert all(r.band == BACKGROUND for t, r in step.ranks.items() if t in "cd")


# --- controls: without a part of it the bound breaks ---------------------------------


def after_an_absence(rules: Rules) -> float:
    """By how many times its bound the gap is exceeded when b comes back after 100 steps."""
    server = a_server({"a": 1.0, "b": 1.0}, rules)
    log = saturated(server, "a", 100) + saturated(server, "b", 100)
    return max(g.widest / one_step_of_each(g, server.weights, rules) for g in gaps(log))


def test_control_without_the_lift_idling_banks_credit() -> None:
    assert after_an_absence(PLAIN) <= 1
    assert after_an_absence(replace(PLAIN, everybody_always=True)) > 10


def test_control_with_the_least_tag_for_virtual_time_idle_capacity_has_to_be_paid_for() -> None:
    assert after_idle_capacity(Rules(begins=False)) < 0.1


def test_control_without_settling_asking_for_little_banks_credit() -> None:
    assert after_asking_for_little(Rules()) > 10


def test_control_a_charge_in_tokens_lets_the_gap_in_time_grow_without_end() -> None:
    priced = Rules(told=lambda tenant, cost: cost / (3.0 if tenant == "b" else 1.0))
    assert after_an_absence(priced) > 10


def test_control_a_ledger_that_never_hears_what_steps_really_cost_drifts() -> None:
    server = a_server({"a": 1.0, "b": 1.0}, replace(PLAIN, depth=1000, off=3.0), seed=1)
    widest = max(gap.widest for gap in gaps(saturated(server, "ab", 1000)))
    assert widest > 5 * one_step_of_each(Gap("a", "b", 0, 0, 0, {}), server.weights, PLAIN)


@pytest.mark.parametrize("tail", [10, 100])
def test_control_tails_count_what_runs_goes_on_however_much_it_was_served(tail: int) -> None:
    rules = Rules(seats=10, token=0.03, tail=tail)
    server = a_server({"a": 1.0, "b": 1.0}, rules)
    for name in "ab":
        for _ in range(2000):
            server.ask(name, 0.05)
    log = [server.step() for _ in range(400)]
    assert max(gap.widest for gap in gaps(log)) <= 2 * (1.0 + rules.carried)
