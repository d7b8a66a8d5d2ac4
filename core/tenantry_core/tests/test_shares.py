from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.shares import Amount, Claim, divide, entitlements

AMOUNTS = st.fractions(min_value=0, max_value=40, max_denominator=12)
WEIGHTS = st.one_of(
    st.just(Fraction(0)), st.fractions(min_value="1/8", max_value=50, max_denominator=8)
)
CLAIMANTS = st.dictionaries(st.sampled_from("abcdefg"), st.tuples(WEIGHTS, AMOUNTS), max_size=7)
CLAIMS = st.lists(
    st.builds(Claim, st.sampled_from("xyz"), st.sampled_from("abcd"), WEIGHTS, AMOUNTS),
    max_size=8,
    unique_by=lambda claim: (claim.group, claim.name),
)


def split(
    claimants: dict[str, tuple[Fraction, Fraction]],
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    weights = {key: weight for key, (weight, _) in claimants.items()}
    return weights, {key: demand for key, (_, demand) in claimants.items()}


def by_rounds(
    capacity: Fraction, weights: dict[str, Fraction], demands: dict[str, Fraction]
) -> dict[str, Fraction]:
    """The same division by its definition: give by weight, freeze who has enough, give again."""
    shares = dict.fromkeys(demands, Fraction(0))
    for band in (
        {key: weights[key] for key in demands if weights[key] > 0},
        {key: Fraction(1) for key in demands if weights[key] == 0},
    ):
        open_ = set(band)
        while open_ and capacity > 0:
            total = sum(band[key] for key in open_)
            gifts = {
                key: min(capacity * band[key] / total, demands[key] - shares[key]) for key in open_
            }
            for key, gift in gifts.items():
                shares[key] += gift
            capacity -= sum(gifts.values())
            filled = {key for key in open_ if shares[key] == demands[key]}
            if not filled:
                break
            open_ -= filled
    return shares


@pytest.mark.parametrize(
    ("capacity", "weights", "demands", "shares"),
    [
        pytest.param(12, {"a": 1, "b": 1}, {"a": 2, "b": 20}, {"a": 2, "b": 10}, id="surplus"),
        pytest.param(4, {"a": 1, "b": 1}, {"a": 4, "b": 2}, {"a": 2, "b": 2}, id="equal"),
        pytest.param(8, {"a": 3, "b": 1}, {"a": 9, "b": 9}, {"a": 6, "b": 2}, id="by weight"),
        pytest.param(
            3, {"a": 1, "b": 1}, {"a": 9, "b": 9}, {"a": Fraction(3, 2), "b": Fraction(3, 2)},
            id="fractions",
        ),
        pytest.param(4, {"a": 1, "b": 0}, {"a": 3, "b": 3}, {"a": 3, "b": 1}, id="weight 0 last"),
        pytest.param(4, {"a": 1, "b": 0}, {"a": 9, "b": 9}, {"a": 4, "b": 0}, id="weight 0 none"),
        pytest.param(
            2, {"a": 0, "b": 0}, {"a": 9, "b": 9}, {"a": 1, "b": 1}, id="only weight 0: equally"
        ),
        pytest.param(9, {"a": 1, "b": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}, id="enough for all"),
        pytest.param(0, {"a": 1}, {"a": 5}, {"a": 0}, id="nothing to divide"),
        pytest.param(5, {"a": 1}, {}, {}, id="nobody asks"),
    ],
)  # fmt: skip
def test_divide_gives_each_its_share(
    capacity: int,
    weights: dict[str, int],
    demands: dict[str, int],
    shares: dict[str, Amount],
) -> None:
    assert divide(capacity, weights, demands) == shares


@pytest.mark.parametrize(
    ("capacity", "weights", "demands", "message"),
    [
        pytest.param(-1, {}, {}, "capacity is -1", id="capacity"),
        pytest.param(1, {}, {"a": 1}, "'a' has a demand and no weight", id="no weight"),
        pytest.param(1, {"a": -1}, {"a": 1}, "'a' has a negative", id="weight"),
        pytest.param(1, {"a": 1}, {"a": -1}, "'a' has a negative", id="demand"),
    ],
)
def test_divide_refuses_what_makes_no_sense(
    capacity: int, weights: dict[str, int], demands: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        divide(capacity, weights, demands)


@given(AMOUNTS, CLAIMANTS)
def test_nothing_is_wasted_and_nobody_gets_more_than_its_demand(
    capacity: Fraction, claimants: dict[str, tuple[Fraction, Fraction]]
) -> None:
    weights, demands = split(claimants)
    shares = divide(capacity, weights, demands)
    assert sum(shares.values()) == min(capacity, sum(demands.values()))
    assert all(0 <= shares[key] <= demands[key] for key in demands)


@given(AMOUNTS, CLAIMANTS)
def test_nobody_who_wants_more_envies_another(
    capacity: Fraction, claimants: dict[str, tuple[Fraction, Fraction]]
) -> None:
    weights, demands = split(claimants)
    shares = divide(capacity, weights, demands)
    for short in (key for key in demands if shares[key] < demands[key]):
        for other in demands:
            if weights[short] > 0 and weights[other] > 0:
                assert shares[short] / weights[short] >= shares[other] / weights[other]
            if weights[short] > weights[other] == 0:
                assert shares[other] == 0


@given(AMOUNTS, AMOUNTS, CLAIMANTS)
def test_with_more_to_divide_nobody_loses(
    capacity: Fraction, more: Fraction, claimants: dict[str, tuple[Fraction, Fraction]]
) -> None:
    weights, demands = split(claimants)
    before, after = divide(capacity, weights, demands), divide(capacity + more, weights, demands)
    assert all(after[key] >= before[key] for key in demands)


@given(AMOUNTS, CLAIMANTS.filter(bool), AMOUNTS, st.data())
def test_asking_for_more_never_brings_less_and_never_helps_others(
    capacity: Fraction,
    claimants: dict[str, tuple[Fraction, Fraction]],
    more: Fraction,
    data: st.DataObject,
) -> None:
    weights, demands = split(claimants)
    key = data.draw(st.sampled_from(sorted(demands)))
    before = divide(capacity, weights, demands)
    after = divide(capacity, weights, {**demands, key: demands[key] + more})
    assert after[key] >= before[key]
    assert all(after[other] <= before[other] for other in demands if other != key)


@given(AMOUNTS, CLAIMANTS)
def test_a_count_by_rounds_comes_to_the_same(
    capacity: Fraction, claimants: dict[str, tuple[Fraction, Fraction]]
) -> None:
    weights, demands = split(claimants)
    assert divide(capacity, weights, demands) == by_rounds(capacity, weights, demands)


@pytest.mark.parametrize(
    ("claims", "groups", "shares"),
    [
        pytest.param(
            [("x", "a", 1, 9), ("x", "b", 1, 9), ("y", "a", 1, 9)],
            {},
            {("x", "a"): 2, ("x", "b"): 2, ("y", "a"): 4},
            id="a second policy claims inside its namespace only",
        ),
        pytest.param(
            [("x", "a", 1, 9), ("y", "a", 100, 9)],
            {"x": Fraction(3)},
            {("x", "a"): 6, ("y", "a"): 2},
            id="a large weight counts for nothing outside its namespace",
        ),
        pytest.param(
            [("x", "a", 1, 1), ("x", "b", 1, 1), ("y", "a", 1, 9)],
            {},
            {("x", "a"): 1, ("x", "b"): 1, ("y", "a"): 6},
            id="what a namespace leaves goes to the others",
        ),
        pytest.param(
            [("x", "a", 0, 9), ("y", "a", 1, 5)],
            {},
            {("x", "a"): 3, ("y", "a"): 5},
            id="weight 0 waits for every namespace",
        ),
        pytest.param(
            [("x", "a", 1, 9), ("y", "a", 1, 5)],
            {"x": Fraction(0)},
            {("x", "a"): 3, ("y", "a"): 5},
            id="a namespace of weight 0 comes last",
        ),
    ],
)
def test_entitlements_divide_between_namespaces_first(
    claims: list[tuple[str, str, int, int]],
    groups: dict[str, Fraction],
    shares: dict[tuple[str, str], int],
) -> None:
    built = [Claim(group, name, Fraction(w), Fraction(d)) for group, name, w, d in claims]
    assert entitlements(8, built, groups) == shares


@given(AMOUNTS, CLAIMS, st.dictionaries(st.sampled_from("xyz"), WEIGHTS))
def test_two_levels_waste_nothing_either(
    capacity: Fraction, claims: list[Claim], groups: dict[str, Fraction]
) -> None:
    shares = entitlements(capacity, claims, groups)
    assert sum(shares.values()) == min(capacity, sum(claim.demand for claim in claims))
    assert all(0 <= shares[c.group, c.name] <= c.demand for c in claims)


@given(AMOUNTS, CLAIMS)
def test_in_one_namespace_two_levels_are_one(capacity: Fraction, claims: list[Claim]) -> None:
    alone = {claim.name: claim for claim in claims}
    inside = [Claim("x", name, claim.weight, claim.demand) for name, claim in alone.items()]
    flat = divide(
        capacity,
        {("x", claim.name): claim.weight for claim in inside},
        {("x", claim.name): claim.demand for claim in inside},
    )
    assert entitlements(capacity, inside, {}) == flat
