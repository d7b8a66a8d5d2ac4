from fractions import Fraction

import pytest

from tenantry_core import placement, slices
from tenantry_core.placement import Misfit, Node, Requirement, Taint, Toleration, Wanted
from tenantry_core.slices import Slice

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
WHOLE = Slice(GPU, "none", Fraction(1))


def a_node(
    allocatable: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    usable: bool = True,
) -> Node:
    amounts = {"cpu": 8000, "pods": 110, **(allocatable or {GPU: 4})}
    offered = {
        name: slices.of_node(name, labels or {}, count)
        for name, count in amounts.items()
        if slices.is_gpu(name)
    }
    return Node("gpu-0", amounts, labels or {}, taints, usable, offered)


def a_pod(requests: dict[str, int] | None = None, **more: object) -> Wanted:
    return Wanted(requests or {GPU: 1, "pods": 1}, **more)  # type: ignore[arg-type]


GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
SHARING = {slices.LABEL_COUNT: "4", slices.LABEL_REPLICAS: "2", slices.LABEL_STRATEGY: "mps"}


@pytest.mark.parametrize(
    ("pod", "node", "misfit"),
    [
        pytest.param(a_pod(), a_node(), None, id="fits"),
        pytest.param(a_pod(), a_node(usable=False), Misfit.UNUSABLE, id="not ready"),
        pytest.param(
            a_pod(selector={"zone": "a"}),
            a_node(labels={"zone": "b"}),
            Misfit.LABELS,
            id="selector",
        ),
        pytest.param(a_pod(), a_node(taints=(GPU_TAINT,)), Misfit.TAINTS, id="taint"),
        pytest.param(
            a_pod(tolerations=(Toleration("nvidia.com/gpu", "Exists"),)),
            a_node(taints=(GPU_TAINT,)),
            None,
            id="tolerated",
        ),
        pytest.param(
            a_pod(tolerations=(Toleration(operator="Exists"),)),
            a_node(taints=(GPU_TAINT,)),
            None,
            id="everything tolerated",
        ),
        pytest.param(
            a_pod(tolerations=(Toleration("nvidia.com/gpu", "Equal", "absent"),)),
            a_node(taints=(GPU_TAINT,)),
            Misfit.TAINTS,
            id="another value tolerated",
        ),
        pytest.param(
            a_pod(tolerations=(Toleration(operator="Exists", effect="NoExecute"),)),
            a_node(taints=(GPU_TAINT,)),
            Misfit.TAINTS,
            id="another effect tolerated",
        ),
        pytest.param(
            a_pod(), a_node(taints=(Taint("k", "", "PreferNoSchedule"),)), None, id="soft taint"
        ),
        pytest.param(a_pod({GPU: 4}), a_node(), None, id="all that it has"),
        pytest.param(a_pod({GPU: 5}), a_node(), Misfit.TOO_LARGE, id="more than it has"),
        pytest.param(a_pod({SHARED: 1}), a_node(), Misfit.NO_SLICES, id="no such resource"),
        pytest.param(
            a_pod({GPU: 1, SHARED: 1}), a_node(), Misfit.MIXED_SLICES, id="two kinds at once"
        ),
        pytest.param(
            a_pod(), a_node({GPU: 8}, SHARING), Misfit.SHARED_NODE, id="whole on a sharing node"
        ),
        pytest.param(
            a_pod(selector={slices.LABEL_STRATEGY: "mps"}),
            a_node({GPU: 8}, SHARING),
            None,
            id="a share chosen by label",
        ),
        pytest.param(
            a_pod(terms=((Requirement(slices.LABEL_REPLICAS, "In", ("2",)),),)),
            a_node({GPU: 8}, SHARING),
            None,
            id="a share chosen by affinity",
        ),
        pytest.param(a_pod({SHARED: 1}), a_node({SHARED: 8}, SHARING), None, id="a share"),
    ],
)
def test_a_node_takes_a_pod_or_says_why_not(pod: Wanted, node: Node, misfit: Misfit | None) -> None:
    assert placement.allowed(pod, node) is misfit


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("c",)), False),
        (Requirement("zone", "NotIn", ("c",)), True),
        (Requirement("none", "NotIn", ("c",)), True),
        (Requirement("zone", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("gen", "Gt", ("8",)), True),
        (Requirement("gen", "Gt", ("9",)), False),
        (Requirement("gen", "Lt", ("10",)), True),
        (Requirement("zone", "Gt", ("1",)), False),
        (Requirement("none", "Lt", ("1",)), False),
        (Requirement("gen", "Gt"), False),
        (Requirement("zone", "Matches", ("a",)), False),
    ],
    ids=str,
)
def test_a_requirement_holds_as_in_kubernetes(requirement: Requirement, holds: bool) -> None:
    assert requirement.holds({"zone": "a", "gen": "9"}) is holds


@pytest.mark.parametrize(
    ("terms", "misfit"),
    [
        pytest.param(
            ((Requirement("zone", "In", ("b",)),), (Requirement("zone", "In", ("a",)),)),
            None,
            id="one term is enough",
        ),
        pytest.param(
            ((Requirement("zone", "In", ("a",)), Requirement("none", "Exists")),),
            Misfit.LABELS,
            id="all of a term must hold",
        ),
        pytest.param(
            ((Requirement(placement.FIELD_NAME, "In", ("gpu-0",)),),), None, id="by the name"
        ),
    ],
)
def test_affinity_terms_are_alternatives(
    terms: tuple[tuple[Requirement, ...], ...], misfit: Misfit | None
) -> None:
    assert placement.allowed(a_pod(terms=terms), a_node(labels={"zone": "a"})) is misfit


@pytest.mark.parametrize(
    ("free", "misfit"),
    [
        pytest.param({GPU: 1, "pods": 1}, None, id="just enough"),
        pytest.param({GPU: 0, "pods": 1}, Misfit.NO_ROOM, id="no GPU"),
        pytest.param({GPU: 1, "pods": 0}, Misfit.NO_ROOM, id="no place for a pod"),
        pytest.param({}, Misfit.NO_ROOM, id="nothing"),
    ],
)
def test_a_pod_needs_everything_it_asks_for(free: dict[str, int], misfit: Misfit | None) -> None:
    assert placement.feasible(a_pod(), a_node(), free) is misfit


@pytest.mark.parametrize(
    ("pod", "node", "free", "score"),
    [
        pytest.param(a_pod(), a_node(), {GPU: 1}, 10, id="fills the node"),
        pytest.param(a_pod(), a_node(), {GPU: 4}, 2, id="an empty node"),
        pytest.param(a_pod({GPU: 4}), a_node(), {GPU: 4}, 10, id="takes all"),
        pytest.param(a_pod(), a_node(), {GPU: -3}, 10, id="overdrawn: in bounds all the same"),
        pytest.param(a_pod(), a_node(), {GPU: 99}, 0, id="more than there is: in bounds too"),
        pytest.param(a_pod({SHARED: 1}), a_node(), {}, 0, id="no such slices"),
        pytest.param(a_pod({"cpu": 1}), a_node(), {}, 0, id="no GPU wanted, GPU node"),
        pytest.param(
            a_pod({"cpu": 1}), Node("cpu-0", {"cpu": 8000}), {}, 10, id="no GPU wanted, other node"
        ),
    ],
)
def test_scores_pack_and_stay_between_0_and_10(
    pod: Wanted, node: Node, free: dict[str, int], score: int
) -> None:
    assert placement.score(pod, node, free) == score


def test_equal_reasons_have_equal_texts_without_names_or_numbers() -> None:
    assert set(placement.TEXTS) == set(Misfit)
    assert len(set(placement.TEXTS.values())) == len(Misfit)
    for text in placement.TEXTS.values():
        assert text.startswith("tenantry: ")
        assert not any(character.isdigit() for character in text)
