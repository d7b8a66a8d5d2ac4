from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import placement, shares, turns
from tenantry_core.placement import Node, Wanted
from tenantry_core.slices import Slice
from tenantry_core.turns import Claimant, Room, Waiting

GPU = "nvidia.com/gpu"
WHOLE = Slice(GPU, "none", Fraction(1))


def a_pod(uid: str, count: int = 1, created: str = "", priority: int = 0) -> Waiting:
    return Waiting(uid, (created, uid), priority, Wanted({GPU: count}), count)


def some_pods(policy: str, number: int, count: int = 1, created: str = "") -> tuple[Waiting, ...]:
    return tuple(a_pod(f"{policy}{index}", count, created) for index in range(number))


def a_claimant(
    name: str,
    entitled: Fraction | int,
    used: Fraction | int = 0,
    waiting: tuple[Waiting, ...] = (),
    background: bool = False,
) -> Claimant:
    return Claimant(("ns", name), Fraction(entitled), Fraction(used), waiting, background)


def a_room(*gpus: int) -> Room:
    nodes = [Node(f"gpu-{i}", {GPU: n}, slices={GPU: WHOLE}) for i, n in enumerate(gpus)]
    return Room(nodes, {node.name: node.allocatable for node in nodes})


def turns_of(claimants: list[Claimant], *gpus: int) -> str:
    """Whose pods are dealt, sorted: `a0 a1 b0`."""
    return " ".join(sorted(turns.deal(claimants, a_room(*gpus), WHOLE).nodes))


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("claimants", "gpus", "dealt"),
    [
        pytest.param(
            [a_claimant("a", 2, 0, some_pods("a", 4)), a_claimant("b", 2, 0, some_pods("b", 2))],
            (4,), "a0 a1 b0 b1", id="each its entitlement",
        ),
        pytest.param(
            [a_claimant("a", 2, 2, some_pods("a", 2)), a_claimant("b", 2, 0, some_pods("b", 1))],
            (2,), "a0 b0", id="over its entitlement it borrows what is left",
        ),
        pytest.param(
            [a_claimant("a", 2, 2, some_pods("a", 2)), a_claimant("b", 2, 0, some_pods("b", 2))],
            (2,), "b0 b1", id="and not what others are entitled to",
        ),
        pytest.param(
            [
                a_claimant("a", Fraction(8, 3), 2, some_pods("a", 2)),
                a_claimant("b", Fraction(4, 3), 1, some_pods("b", 2)),
            ],
            (1,), "a0", id="the larger rest of an entitlement comes first",
        ),
        pytest.param(
            [
                a_claimant("a", 3 * HALF, 1, some_pods("a", 1, created="2")),
                a_claimant("b", 3 * HALF, 1, some_pods("b", 1, created="1")),
            ],
            (1,), "b0", id="equal rests: the older pod",
        ),
        pytest.param(
            [
                a_claimant("b", 3 * HALF, 1, some_pods("b", 1)),
                a_claimant("a", 3 * HALF, 1, some_pods("a", 1)),
            ],
            (1,), "a0", id="equal age: the name",
        ),
        pytest.param(
            [
                a_claimant("a", 1, 0, some_pods("a", 1), background=True),
                a_claimant("b", 1, 4, some_pods("b", 1)),
            ],
            (1,), "b0", id="weight 0 gets only what nobody wants",
        ),
        pytest.param(
            [a_claimant("a", 4, 0, some_pods("a", 1, 4)), a_claimant("b", 1, 1, some_pods("b", 2))],
            (2, 2), "b0 b1", id="a pod that fits nowhere keeps nothing idle",
        ),
        pytest.param(
            [a_claimant("a", 4, 0, some_pods("a", 1, 4)), a_claimant("b", 1, 1, some_pods("b", 2))],
            (4,), "a0", id="a pod that fits keeps its room",
        ),
        pytest.param(
            [
                a_claimant("a", 2, 2, some_pods("a", 1)),
                a_claimant("b", 1, 2, some_pods("b", 1)),
            ],
            (1,), "a0", id="among borrowers the smaller part of its entitlement",
        ),
        pytest.param([a_claimant("a", 0, 0, some_pods("a", 1))], (1,), "a0", id="entitled to none"),
        pytest.param([a_claimant("a", 2)], (2,), "", id="nobody waits"),
    ],
)  # fmt: skip
def test_turns_follow_entitlements(
    claimants: list[Claimant], gpus: tuple[int, ...], dealt: str
) -> None:
    assert turns_of(claimants, *gpus) == dealt


def test_pods_of_a_policy_go_by_priority_and_age_unless_one_asks() -> None:
    young, old, high = a_pod("x", created="2"), a_pod("y", created="1"), a_pod("z", 1, "3", 9)
    assert turns.in_order([young, old, high]) == (high, old, young)
    assert turns.in_order([young, old, high], "x") == (young, high, old)


def test_a_pod_takes_the_node_where_it_leaves_least() -> None:
    dealt = turns.deal([a_claimant("a", 2, 0, (a_pod("a0", 2),))], a_room(4, 2, 3), WHOLE)
    assert dealt.nodes == {"a0": "gpu-1"}


def test_a_deal_until_a_pod_leaves_what_it_may_choose_from() -> None:
    claimants = [
        a_claimant("a", 2, 2, (a_pod("a0"),)),
        a_claimant("b", 2, 0, some_pods("b", 2)),
    ]
    dealt = turns.deal(claimants, a_room(3), WHOLE, until="a0")
    assert set(dealt.nodes) == {"b0", "b1"}
    assert dealt.room.free("gpu-0") == {GPU: 1}


POLICIES = st.lists(
    st.tuples(
        st.integers(1, 5),  # weight
        st.lists(st.sampled_from([1, 1, 1, 2, 4]), max_size=6),  # waiting pods
    ),
    min_size=1,
    max_size=5,
)
NODES = st.lists(st.integers(0, 8), min_size=1, max_size=4)


def claimants_of(policies: list[tuple[int, list[int]]], gpus: int) -> list[Claimant]:
    entitled = shares.divide(
        gpus,
        {index: weight for index, (weight, _) in enumerate(policies)},
        {index: sum(pods) for index, (_, pods) in enumerate(policies)},
    )
    return [
        a_claimant(
            f"p{index}",
            entitled[index],
            0,
            tuple(a_pod(f"p{index}.{n}", count) for n, count in enumerate(pods)),
        )
        for index, (_, pods) in enumerate(policies)
    ]


@given(POLICIES, NODES)
def test_no_node_is_overdrawn_and_nothing_that_fits_is_left_idle(
    policies: list[tuple[int, list[int]]], gpus: list[int]
) -> None:
    claimants = claimants_of(policies, sum(gpus))
    dealt = turns.deal(claimants, a_room(*gpus), WHOLE)
    counts = {pod.uid: pod.count for c in claimants for pod in c.waiting}
    for index, total in enumerate(gpus):
        name = f"gpu-{index}"
        taken = sum(counts[uid] for uid, node in dealt.nodes.items() if node == name)
        assert dealt.room.free(name).get(GPU, 0) == total - taken >= 0
    left = max(dealt.room.free(f"gpu-{index}").get(GPU, 0) for index in range(len(gpus)))
    assert all(count > left for uid, count in counts.items() if uid not in dealt.nodes)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=1), st.integers(0, 20))
def test_with_pods_of_one_gpu_everybody_gets_its_entitlement_rounded_down_or_up(
    policies: list[tuple[int, int]], gpus: int
) -> None:
    claimants = claimants_of([(weight, [1] * pods) for weight, pods in policies], gpus)
    dealt = turns.deal(claimants, a_room(gpus), WHOLE)
    for claimant in claimants:
        got = sum(pod.uid in dealt.nodes for pod in claimant.waiting)
        assert abs(got - claimant.entitled) < 1


@given(POLICIES, NODES, st.randoms(use_true_random=False))
def test_the_order_in_which_claimants_are_listed_does_not_matter(
    policies: list[tuple[int, list[int]]], gpus: list[int], chance: "object"
) -> None:
    claimants = claimants_of(policies, sum(gpus))
    shuffled = list(claimants)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    first = turns.deal(claimants, a_room(*gpus), WHOLE)
    assert turns.deal(shuffled, a_room(*gpus), WHOLE).nodes == first.nodes


@given(POLICIES, NODES)
def test_whose_turn_it_is_may_choose_when_it_asks(
    policies: list[tuple[int, list[int]]], gpus: list[int]
) -> None:
    claimants = claimants_of(policies, sum(gpus))
    for uid, node in turns.deal(claimants, a_room(*gpus), WHOLE).nodes.items():
        asked = next(p for c in claimants for p in c.waiting if p.uid == uid)
        room = turns.deal(claimants, a_room(*gpus), WHOLE, until=uid).room
        offer = Node(node, {GPU: max(gpus)}, slices={GPU: WHOLE})
        assert placement.feasible(asked.wants, offer, room.free(node)) is None
