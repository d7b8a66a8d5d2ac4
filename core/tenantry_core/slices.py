"""GPU slices: the schedulable pieces of a GPU, and the resource names they go by.

A node advertises slices as extended resources: whole GPUs, shared ones (MPS or time-slicing) and
MIG instances. The number that can be scheduled is the node's `allocatable`; the labels of NVIDIA's
GPU feature discovery are hints that tell how large a slice is, in GPUs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

GPU = "nvidia.com/gpu"
RENAMED = ".shared"
LABEL_COUNT = "nvidia.com/gpu.count"
LABEL_REPLICAS = "nvidia.com/gpu.replicas"
LABEL_STRATEGY = "nvidia.com/gpu.sharing-strategy"
LABEL_PRODUCT = "nvidia.com/gpu.product"
#: Who names one of these in a node selector or affinity has chosen the kind of slice itself.
CHOOSING_LABELS = frozenset({LABEL_REPLICAS, LABEL_STRATEGY, LABEL_PRODUCT})

_MIG = re.compile(r"nvidia\.com/mig-(?P<parts>\d+)g\.\d+gb")
#: Compute slices of one GPU that MIG divides: 4 on an A30, 7 on every other model.
_MIG_PARTS, _MIG_PARTS_A30 = 7, 4


@dataclass(frozen=True, order=True)
class Slice:
    """A kind of slice. Pods that want the same kind compete with each other and with nobody else.

    `size` is in GPUs: 1 for a whole one, 1/2 where two share one, 3/7 for `mig-3g.*`.
    """

    resource: str
    strategy: str
    size: Fraction

    @property
    def shared(self) -> bool:
        return self.strategy != "none"


def is_gpu(resource: str) -> bool:
    """Whether this is a resource name under which NVIDIA's device plugin offers GPUs."""
    return resource in (GPU, GPU + RENAMED) or _MIG.match(resource) is not None


def wanted(requests: Mapping[str, int]) -> dict[str, int]:
    """The GPU part of a pod's requests: how many of each GPU resource, without zeros."""
    return {name: count for name, count in sorted(requests.items()) if is_gpu(name) and count > 0}


def of_node(resource: str, labels: Mapping[str, str], capacity: int) -> Slice:
    """The kind of slice that a node offers as `resource`; `capacity` is the node's own number of
    them, unhealthy ones included."""
    whole = _mig_size(resource, labels)
    strategy = labels.get(LABEL_STRATEGY, "none")
    if strategy == "none" and not resource.endswith(RENAMED):
        return Slice(resource, "none", whole)
    replicas = _replicas(resource, labels, capacity)
    if replicas < 2:
        return Slice(resource, "none", whole)
    return Slice(resource, strategy if strategy != "none" else "shared", whole / replicas)


def _replicas(resource: str, labels: Mapping[str, str], capacity: int) -> int:
    """How many slices one device is split into; 1 where nothing tells.

    The label `gpu.replicas` is per GPU in the code of NVIDIA's plugin and count times replicas in
    its documentation, so the capacity that the node counts itself decides where it can.
    """
    label, count = _number(labels, LABEL_REPLICAS), _number(labels, LABEL_COUNT)
    if _MIG.match(resource) is None and count > 0 and capacity % count == 0:
        return max(1, capacity // count)
    return max(1, label)


def _number(labels: Mapping[str, str], name: str) -> int:
    text = labels.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _mig_size(resource: str, labels: Mapping[str, str]) -> Fraction:
    match = _MIG.match(resource)
    if match is None:
        return Fraction(1)
    parts = _MIG_PARTS_A30 if "A30" in labels.get(LABEL_PRODUCT, "") else _MIG_PARTS
    return min(Fraction(1), Fraction(int(match["parts"]), parts))
