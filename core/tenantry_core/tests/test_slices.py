from fractions import Fraction

import pytest

from tenantry_core import slices
from tenantry_core.slices import Slice

HALF = Fraction(1, 2)


def labels(
    count: str = "", replicas: str = "", strategy: str = "", product: str = ""
) -> dict[str, str]:
    given = {
        slices.LABEL_COUNT: count,
        slices.LABEL_REPLICAS: replicas,
        slices.LABEL_STRATEGY: strategy,
        slices.LABEL_PRODUCT: product,
    }
    return {name: value for name, value in given.items() if value}


@pytest.mark.parametrize(
    ("resource", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/mig-1g.10gb.me", True),
        ("nvidia.com/mig-1g.5gb.shared", True),
        ("nvidia.com/gpu.count", False),
        ("nvidia.com/mig-all", False),
        ("amd.com/gpu", False),
        ("cpu", False),
    ],
)
def test_the_names_of_gpu_resources_are_known(resource: str, is_gpu: bool) -> None:
    assert slices.is_gpu(resource) is is_gpu


@pytest.mark.parametrize(
    ("resource", "given", "capacity", "found"),
    [
        pytest.param(
            "nvidia.com/gpu", {}, 4, Slice("nvidia.com/gpu", "none", Fraction(1)), id="no labels"
        ),
        pytest.param(
            "nvidia.com/gpu", labels("4", "1", "none"), 4,
            Slice("nvidia.com/gpu", "none", Fraction(1)), id="whole",
        ),
        pytest.param(
            "nvidia.com/gpu", labels("4", "0"), 4,
            Slice("nvidia.com/gpu", "none", Fraction(1)), id="sharing disabled: replicas 0",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("4", "2", "mps"), 8,
            Slice("nvidia.com/gpu.shared", "mps", HALF), id="MPS in halves",
        ),
        pytest.param(
            "nvidia.com/gpu", labels("4", "2", "time-slicing"), 8,
            Slice("nvidia.com/gpu", "time-slicing", HALF), id="shared under the old name",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("4", "8", "mps"), 8,
            Slice("nvidia.com/gpu.shared", "mps", HALF), id="label says count times replicas",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("", "3", "mps"), 8,
            Slice("nvidia.com/gpu.shared", "mps", Fraction(1, 3)), id="no count: the label",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("3", "4", "mps"), 8,
            Slice("nvidia.com/gpu.shared", "mps", Fraction(1, 4)), id="odd count: the label",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("2", "2"), 4,
            Slice("nvidia.com/gpu.shared", "shared", HALF), id="strategy unknown",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", {}, 4,
            Slice("nvidia.com/gpu.shared", "none", Fraction(1)), id="nothing known: whole GPUs",
        ),
        pytest.param(
            "nvidia.com/gpu.shared", labels("4", "two", "mps"), 9,
            Slice("nvidia.com/gpu.shared", "none", Fraction(1)), id="labels of nonsense",
        ),
        pytest.param(
            "nvidia.com/mig-3g.40gb", labels("4", "1", "none"), 8,
            Slice("nvidia.com/mig-3g.40gb", "none", Fraction(3, 7)), id="MIG",
        ),
        pytest.param(
            "nvidia.com/mig-2g.12gb", labels(product="NVIDIA-A30"), 2,
            Slice("nvidia.com/mig-2g.12gb", "none", HALF), id="MIG on an A30",
        ),
        pytest.param(
            "nvidia.com/mig-1g.5gb.shared", labels("4", "2", "time-slicing"), 56,
            Slice("nvidia.com/mig-1g.5gb.shared", "time-slicing", Fraction(1, 14)),
            id="time-sliced MIG",
        ),
    ],
)  # fmt: skip
def test_a_slice_is_as_large_as_the_node_says(
    resource: str, given: dict[str, str], capacity: int, found: Slice
) -> None:
    assert slices.of_node(resource, given, capacity) == found


def test_all_slices_of_a_gpu_are_one_gpu() -> None:
    kind = slices.of_node("nvidia.com/gpu.shared", labels("4", "2", "mps"), 8)
    assert 8 * kind.size == 4


def test_only_gpus_are_wanted() -> None:
    requests = {"cpu": 2000, "nvidia.com/gpu": 2, "nvidia.com/gpu.shared": 0}
    assert slices.wanted(requests) == {"nvidia.com/gpu": 2}
