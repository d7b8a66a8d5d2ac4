"""Which nodes can hold a pod, with the reason where one cannot, and how well each fits.

`allowed` asks what never changes by waiting (labels, taints, the kind of slice), `feasible` adds
what is free now, `score` ranks. All three change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from tenantry_core import slices
from tenantry_core.slices import Slice

MAX_SCORE = 10
#: The one field that a node selector term may match instead of a label.
FIELD_NAME = "metadata.name"


class Misfit(StrEnum):
    """Why a node does not take a pod. The value is a metric label; `TEXTS` has the sentence."""

    OVER_SHARE = "over_share"
    NO_ROOM = "no_room"
    SHARED_NODE = "shared_node"
    MIXED_SLICES = "mixed_slices"
    NO_SLICES = "no_slices"
    TOO_LARGE = "too_large"
    UNKNOWN_NODE = "unknown_node"
    UNUSABLE = "unusable"
    LABELS = "labels"
    TAINTS = "taints"


#: kube-scheduler counts equal texts together, so they carry neither names nor numbers.
TEXTS: Mapping[Misfit, str] = {
    Misfit.OVER_SHARE: "tenantry: policy is over its GPU share and others want the rest",
    Misfit.NO_ROOM: "tenantry: GPU slices of the node are taken or held",
    Misfit.SHARED_NODE: "tenantry: node shares its GPUs and the pod asks for whole ones",
    Misfit.MIXED_SLICES: "tenantry: pod asks for more than one kind of GPU slice",
    Misfit.NO_SLICES: "tenantry: node has no such GPU slices",
    Misfit.TOO_LARGE: "tenantry: pod asks for more GPU slices than the node has",
    Misfit.UNKNOWN_NODE: "tenantry: node is not in the books yet",
    Misfit.UNUSABLE: "tenantry: node is not ready or not schedulable",
    Misfit.LABELS: "tenantry: node labels do not match the pod",
    Misfit.TAINTS: "tenantry: pod does not tolerate a taint of the node",
}

#: What removing pods from the node would not change.
UNRESOLVABLE = frozenset(
    {Misfit.SHARED_NODE, Misfit.MIXED_SLICES, Misfit.NO_SLICES, Misfit.TOO_LARGE}
)


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Toleration:
    """Empty `key` with operator Exists tolerates every key, empty `effect` every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


@dataclass(frozen=True)
class Requirement:
    """One expression of a required node affinity; an unknown operator matches nothing."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("Gt", "Lt"):
            return self._compares(value)
        answers = {
            "In": value in self.values,
            "NotIn": value not in self.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        return answers.get(self.operator, False)

    def _compares(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True)
class Wanted:
    """What a pod needs of a node. `requests` are integers: `cpu` in thousandths of a core, memory
    in bytes, everything else in pieces. `terms` are the alternatives of its node affinity."""

    requests: Mapping[str, int]
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @cached_property
    def slices(self) -> Mapping[str, int]:
        return slices.wanted(self.requests)

    @cached_property
    def shape(self) -> tuple[object, ...]:
        """Equal for pods that fit on the same nodes; hashable."""
        selector = tuple(sorted(self.selector.items()))
        return (tuple(sorted(self.requests.items())), selector, self.terms, self.tolerations)

    @property
    def chooses_slices(self) -> bool:
        """Whether it selects the kind of slice itself instead of taking a resource name at its
        word."""
        named = {requirement.key for term in self.terms for requirement in term}
        return not slices.CHOOSING_LABELS.isdisjoint({*self.selector, *named})


@dataclass(frozen=True)
class Node:
    """A node as the books know it. `usable` is Ready and schedulable; `slices` maps each GPU
    resource that it offers to the kind of slice behind the name."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    usable: bool = True
    slices: Mapping[str, Slice] = field(default_factory=dict)


def allowed(pod: Wanted, node: Node) -> Misfit | None:
    """Why the pod can never run on this node as both stand, or None."""
    if not node.usable:
        return Misfit.UNUSABLE
    if not _labels_match(pod, node):
        return Misfit.LABELS
    hard = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    if any(not any(tol.covers(taint) for tol in pod.tolerations) for taint in hard):
        return Misfit.TAINTS
    return kind_misfit(pod, node)


def kind_misfit(pod: Wanted, node: Node) -> Misfit | None:
    """Why the slices of this node are not of the kind that the pod asks for, or too few even when
    nobody else has any, or None.

    `nvidia.com/gpu` means a whole GPU, unless the pod chooses by label; a node that shares its
    GPUs under the same name would otherwise give it a part of one.
    """
    if len(pod.slices) > 1:
        return Misfit.MIXED_SLICES
    for resource, count in pod.slices.items():
        if resource not in node.slices:
            return Misfit.NO_SLICES
        if resource == slices.GPU and node.slices[resource].shared and not pod.chooses_slices:
            return Misfit.SHARED_NODE
        if count > node.allocatable.get(resource, 0):
            return Misfit.TOO_LARGE
    return None


def feasible(pod: Wanted, node: Node, free: Mapping[str, int]) -> Misfit | None:
    """Why the pod cannot run on this node now, with `free` left of its resources, or None."""
    misfit = allowed(pod, node)
    if misfit is not None:
        return misfit
    return None if has_room(pod, free) else Misfit.NO_ROOM


def has_room(pod: Wanted, free: Mapping[str, int]) -> bool:
    """Whether `free` covers everything that the pod asks for."""
    return all(count <= free.get(name, 0) for name, count in pod.requests.items() if count > 0)


def score(pod: Wanted, node: Node, free: Mapping[str, int]) -> int:
    """0 to 10, more is better: a node that the pod fills up leaves whole nodes to larger pods, and
    a pod without a GPU is best kept off GPU nodes."""
    if not pod.slices:
        return 0 if node.slices else MAX_SCORE
    if kind_misfit(pod, node) is not None:
        return 0
    ((resource, count),) = pod.slices.items()
    total = max(1, node.allocatable.get(resource, 0))
    left = min(total, max(0, free.get(resource, 0) - count))
    return MAX_SCORE * (total - left) // total


def _labels_match(pod: Wanted, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.selector.items()):
        return False
    known = {**node.labels, FIELD_NAME: node.name}
    return not pod.terms or any(all(r.holds(known) for r in term) for term in pod.terms)
