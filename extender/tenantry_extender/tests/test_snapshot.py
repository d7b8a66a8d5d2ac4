from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.slices import Slice
from tenantry_extender import manifests, verbs
from tenantry_extender.books import Books, Kind
from tenantry_extender.snapshot import UNMANAGED, Snapshot
from tenantry_extender.tests.builders import (
    GPU,
    NAMESPACE,
    OTHERS,
    SHARED,
    Body,
    a_namespace,
    a_node,
    a_pod,
    a_policy,
    a_sharing_node,
    books_of,
    some_pods,
    two_policies,
)

WHOLE = Slice(GPU, "none", Fraction(1))


def due(books: Books) -> list[str]:
    """Names of the pods whose turn it is."""
    return sorted(books.snapshot.pods[uid].name for uid in books.snapshot.due)


def standing(snapshot: Snapshot, kind: Slice = WHOLE) -> dict[str, tuple[float, float, int]]:
    """Policy -> (entitled, used, number of waiting pods)."""
    return {
        claimant.key[1]: (float(claimant.entitled), float(claimant.used), len(claimant.waiting))
        for claimant in snapshot.claimants(kind)
    }


def test_pods_of_every_scheduler_take_room() -> None:
    pods = [a_pod("x", node="gpu-0", scheduler=OTHERS), a_pod("y", "a", node="gpu-0")]
    snapshot = books_of([a_node()], pods, [a_policy("a")]).snapshot
    assert snapshot.free["gpu-0"][GPU] == 2
    assert snapshot.free["gpu-0"]["pods"] == 108


def test_what_others_hold_is_not_divided() -> None:
    books = two_policies(4, 4)
    books.put(Kind.PODS, a_pod("x", node="gpu-0", scheduler=OTHERS, resources={GPU: "2"}))
    assert standing(books.snapshot) == {"a": (1, 0, 4), "b": (1, 0, 4)}
    assert due(books) == ["a-0", "b-0"]


def test_a_pod_of_a_policy_counts_for_it_whoever_has_placed_it() -> None:
    books = two_policies()
    books.put(Kind.PODS, a_pod("x", "a", node="gpu-0", scheduler=OTHERS))
    assert standing(books.snapshot)["a"] == (2, 1, 4)


def test_pods_without_a_policy_are_one_more_claim_of_weight_1() -> None:
    pods = [*some_pods("a", 4), *some_pods("", 4), *some_pods("unknown", 4)]
    books = books_of([a_node()], pods, [a_policy("a", weight=3)])
    assert standing(books.snapshot) == {UNMANAGED: (1, 0, 8), "a": (3, 0, 4)}


def test_a_policy_of_the_same_name_elsewhere_is_another_one() -> None:
    pods = [*some_pods("a", 4), *[a_pod(f"z-{n}", "a", namespace="other") for n in range(4)]]
    books = books_of([a_node()], pods, [a_policy("a"), a_policy("a", namespace="other")])
    entitled = {c.key: float(c.entitled) for c in books.snapshot.claimants(WHOLE)}
    assert entitled == {("llm", "a"): 2, ("other", "a"): 2}


def test_the_label_of_a_namespace_weighs_between_namespaces() -> None:
    pods = [*some_pods("a", 4), *[a_pod(f"z-{n}", "z", namespace="other") for n in range(4)]]
    books = books_of(
        [a_node()],
        pods,
        [a_policy("a"), a_policy("z", 100, "other")],
        [a_namespace("llm", "3"), a_namespace("other")],
    )
    assert standing(books.snapshot) == {"a": (3, 0, 4), "z": (1, 0, 4)}


def test_weight_0_waits_until_nobody_else_wants() -> None:
    books = books_of(
        [a_node()],
        [*some_pods("a", 4), *some_pods("b", 3)],
        [a_policy("a", 0), a_policy("b")],
    )
    assert standing(books.snapshot) == {"a": (1, 0, 4), "b": (3, 0, 3)}
    assert due(books) == ["a-0", "b-0", "b-1", "b-2"]


def test_only_pods_that_could_go_are_waiting() -> None:
    pods = [
        a_pod("ready", "a"),
        a_pod("gated", "a", gated=True),
        a_pod("ending", "a", ending=True),
        a_pod("elsewhere", "a", scheduler=OTHERS),
        a_pod("no-gpu", "a", resources={"cpu": "1"}),
        a_pod("two-kinds", "a", resources={GPU: "1", SHARED: "1"}),
        a_pod("nowhere", "a", selector={"zone": "moon"}),
    ]
    assert due(books_of([a_node(gpus=8)], pods, [a_policy("a")])) == ["ready"]


def test_a_pod_keeps_its_gpu_until_it_is_gone() -> None:
    books = books_of(
        [a_node(gpus=1)], [a_pod("x", "a", node="gpu-0", ending=True), a_pod("y", "a")]
    )
    assert due(books) == []
    books.remove(Kind.PODS, a_pod("x", "a"))
    assert due(books) == ["y"]


def test_the_room_made_by_preemption_is_kept_for_the_pod_it_was_made_for() -> None:
    pods = [a_pod("x", "a", nominated="gpu-0"), a_pod("y", "b")]
    books = books_of([a_node(gpus=1)], pods, [a_policy("a"), a_policy("b")])
    assert due(books) == []


def test_two_halves_are_one_gpu() -> None:
    half = {SHARED: "1"}
    pods = [*some_pods("a", 8, resources=half), *some_pods("b", 4, resources=half)]
    books = books_of([a_sharing_node(gpus=4, replicas=2)], pods, [a_policy("a"), a_policy("b")])
    (kind,) = books.snapshot.kinds
    assert standing(books.snapshot, kind) == {"a": (2, 0, 8), "b": (2, 0, 4)}
    assert due(books) == sorted([*(f"a-{n}" for n in range(4)), *(f"b-{n}" for n in range(4))])


def test_kinds_of_slices_are_divided_each_for_itself() -> None:
    half = {SHARED: "1"}
    pods = [*some_pods("a", 2), *some_pods("b", 2), *some_pods("c", 3, resources=half)]
    nodes = [a_node("gpu-0", 2), a_sharing_node("gpu-1", 1, 2)]
    books = books_of(nodes, pods, [a_policy("a"), a_policy("b"), a_policy("c")])
    assert due(books) == ["a-0", "b-0", "c-0", "c-1"]


def test_a_pod_that_may_use_several_kinds_competes_where_there_is_most() -> None:
    nodes = [a_sharing_node("gpu-0", 1, 2), a_sharing_node("gpu-1", 4, 4)]
    books = books_of(nodes, [a_pod("x", "a", resources={SHARED: "1"})])
    home = books.snapshot.home(books.snapshot.pods["uid-x"])
    assert home == Slice(SHARED, "mps", Fraction(1, 4))


def test_nodes_that_take_no_pods_are_not_divided() -> None:
    nodes = [a_node("gpu-0", 4, ready=False), a_node("gpu-1", 2, unschedulable=True)]
    books = two_policies(nodes=nodes)
    books.put(Kind.PODS, a_pod("x", "a", node="gpu-1"))
    assert books.snapshot.capacity(WHOLE) == 1
    assert due(books) == []


def test_set_aside_a_pod_holds_nobody_back_and_still_gets_its_turn_when_it_asks() -> None:
    books = two_policies(4, 4)
    books.set_aside(frozenset(f"uid-b-{n}" for n in range(4)))
    assert due(books) == ["a-0", "a-1", "a-2", "a-3"]
    pod = books.snapshot.pods["uid-b-0"]
    assert verbs.judge(books.snapshot, pod, ["gpu-0"]) == {"gpu-0": None}


PODS = st.lists(
    st.fixed_dictionaries(
        {
            "policy": st.sampled_from(["a", "b", "c", ""]),
            "gpus": st.sampled_from([0, 1, 1, 2]),
            "node": st.sampled_from(["", "", "gpu-0", "gpu-1", "gone"]),
            "scheduler": st.sampled_from(["tenantry-scheduler", OTHERS]),
            "held": st.booleans(),
        }
    ),
    max_size=12,
)


def build(drawn: list[dict[str, Any]]) -> tuple[Books, list[Body]]:
    bodies = [
        a_pod(
            f"p{index}",
            pod["policy"],
            resources={GPU: str(pod["gpus"])},
            scheduler=pod["scheduler"],
            **({"node": pod["node"]} if pod["node"] else {}),
        )
        for index, pod in enumerate(drawn)
    ]
    books = books_of(
        [a_node("gpu-0"), a_node("gpu-1", 3)], bodies, [a_policy("a"), a_policy("b", 2)]
    )
    for index, pod in enumerate(drawn):
        if pod["held"] and not pod["node"]:
            books.hold(books.snapshot.pods[f"uid-p{index}"], "gpu-1", 0.0)
    return books, bodies


@given(PODS)
def test_a_recount_from_the_objects_comes_to_the_same(drawn: list[dict[str, Any]]) -> None:
    snapshot = build(drawn)[0].snapshot
    for name, total in (("gpu-0", 4), ("gpu-1", 3)):
        taken = 0
        for pod in drawn:
            place = pod["node"] or ("gpu-1" if pod["held"] else "")
            taken += pod["gpus"] if place == name else 0
        assert snapshot.free[name].get(GPU, 0) == total - taken
    for policy in ("a", "b"):
        places = [
            (pod["node"] or ("gpu-1" if pod["held"] else ""), pod["gpus"])
            for pod in drawn
            if pod["policy"] == policy
        ]
        used = sum(gpus for place, gpus in places if place in ("gpu-0", "gpu-1"))
        assert snapshot.used(WHOLE).get((NAMESPACE, policy), 0) == used


@given(PODS, st.randoms(use_true_random=False))
def test_books_kept_by_events_equal_books_listed_anew(
    drawn: list[dict[str, Any]], chance: Any
) -> None:
    _, bodies = build([{**pod, "held": False} for pod in drawn])
    nodes, policies = [a_node("gpu-0"), a_node("gpu-1", 3)], [a_policy("a"), a_policy("b", 2)]
    events = [
        *((Kind.PODS, body) for body in bodies),
        *((Kind.NODES, body) for body in nodes),
        *((Kind.POLICIES, body) for body in policies),
    ]
    chance.shuffle(events)
    kept = books_of()
    for kind, body in events:
        kept.put(kind, body)
        kept.put(Kind.PODS, a_pod("passing", "a", node="gpu-0"))
    kept.remove(Kind.PODS, a_pod("passing"))
    listed = books_of(nodes, bodies, policies).snapshot
    assert kept.snapshot == replace(listed, pods=kept.snapshot.pods)
    assert dict(kept.snapshot.pods) == dict(listed.pods)
    assert kept.snapshot.due == listed.due


@given(PODS)
def test_every_pod_whose_turn_it_is_passes_when_it_asks(drawn: list[dict[str, Any]]) -> None:
    snapshot = build(drawn)[0].snapshot
    for uid in snapshot.due:
        verdicts = verbs.judge(snapshot, snapshot.pods[uid], ["gpu-0", "gpu-1"])
        assert None in verdicts.values()


@given(PODS)
def test_asking_changes_nothing(drawn: list[dict[str, Any]]) -> None:
    books, _ = build(drawn)
    before = (books.snapshot, dict(books.snapshot.pods), books.snapshot.due)
    for pod in list(books.snapshot.pods.values()):
        verbs.judge(books.snapshot, pod, ["gpu-0", "gpu-1"])
    assert (books.snapshot, dict(books.snapshot.pods), books.snapshot.due) == before


def test_a_pod_that_was_never_seen_may_ask() -> None:
    books = two_policies(a_pods=0, b_pods=4)
    pod = manifests.pod(a_pod("new", "a"))
    assert verbs.judge(books.snapshot, pod, ["gpu-0"]) == {"gpu-0": None}
