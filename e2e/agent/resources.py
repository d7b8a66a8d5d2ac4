"""Quantities, and what a node has left: the kubelet's own check when a pod arrives.

The scheduler may be wrong (two schedulers, a pod bound by hand); the node is not. Devices are
numbered, so two pods of a node never hold the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
DEVICE_PREFIX = "nvidia.com/"


def quantity(text: object) -> Decimal:
    """A Kubernetes quantity as a number; ArithmeticError where it is none."""
    value = str(text).strip()
    if value[-2:] in _BINARY:
        return Decimal(value[:-2]) * Decimal(1024) ** _BINARY[value[-2:]]
    suffix = value[-1:] if value[-1:] in _DECIMAL else ""
    number = value[: len(value) - len(suffix)]
    return Decimal(number) * Decimal(10) ** _DECIMAL[suffix]


def requested(pod: Object) -> dict[str, Decimal]:
    """What the pod claims: containers added up, or the largest init container where that is more.

    An init container that restarts always (a sidecar) counts like a container.
    """
    total: dict[str, Decimal] = {"pods": Decimal(1)}
    peak: dict[str, Decimal] = {}
    spec = pod["spec"]
    for container in spec["containers"]:
        _add(total, _requests(container))
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            _add(total, _requests(container))
            continue
        for name, amount in _requests(container).items():
            peak[name] = max(peak.get(name, Decimal(0)), amount)
    return {
        name: max(total.get(name, Decimal(0)), peak.get(name, Decimal(0)))
        for name in total.keys() | peak.keys()
    }


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources", {})
    merged = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {name: quantity(value) for name, value in merged.items()}


def _add(total: dict[str, Decimal], more: Mapping[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


@dataclass(frozen=True)
class Refusal:
    """Why a node does not take a pod: reason and message of the pod's status."""

    reason: str
    message: str


@dataclass
class NodeBooks:
    """What runs on one node and which devices it holds, by pod uid."""

    name: str
    claims: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    devices: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)

    def check(
        self, wanted: Mapping[str, Decimal], allocatable: Mapping[str, str]
    ) -> Refusal | None:
        """Whether the node can take `wanted`; None is yes. Devices first, as a kubelet does."""
        for name in sorted(wanted, key=lambda each: (not each.startswith(DEVICE_PREFIX), each)):
            amount = wanted[name]
            capacity = quantity(allocatable.get(name, "0"))
            used = sum((claim.get(name, Decimal(0)) for claim in self.claims.values()), Decimal(0))
            if amount == 0 or amount + used <= capacity:
                continue
            if name.startswith(DEVICE_PREFIX) and capacity > 0:
                return Refusal(
                    "UnexpectedAdmissionError",
                    "Allocate failed due to requested number of devices unavailable for "
                    f"{name}. Requested: {amount}, Available: {max(capacity - used, Decimal(0))}, "
                    "which is unexpected",
                )
            return Refusal(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {amount}, used: {used}, "
                f"capacity: {capacity}",
            )
        return None

    def take(self, uid: str, wanted: Mapping[str, Decimal]) -> None:
        """Write a pod into the books and number its devices, lowest first."""
        self.claims[uid] = dict(wanted)
        held: dict[str, tuple[int, ...]] = {}
        for name, amount in wanted.items():
            if name.startswith(DEVICE_PREFIX):
                taken = {n for other in self.devices.values() for n in other.get(name, ())}
                free = (n for n in range(len(taken) + int(amount)) if n not in taken)
                held[name] = tuple(n for n, _ in zip(free, range(int(amount)), strict=False))
        self.devices[uid] = held

    def release(self, uid: str) -> None:
        """The pod is gone or finished."""
        self.claims.pop(uid, None)
        self.devices.pop(uid, None)


def visible_devices(node: str, held: Mapping[str, Iterable[int]], replicas: int) -> str:
    """NVIDIA_VISIBLE_DEVICES of a pod: one UUID per physical GPU, in order.

    replicas: into how many shared devices each GPU of the node is split (1: not at all).
    """
    found: list[str] = []
    for name, numbers in sorted(held.items()):
        shared = name.endswith(".shared") or replicas > 1
        kind = "MIG" if name.startswith(f"{DEVICE_PREFIX}mig-") else "GPU"
        for number in numbers:
            index = number // replicas if shared and kind == "GPU" else number
            uuid = f"{kind}-{node}-{index}"
            if uuid not in found:
                found.append(uuid)
    return ",".join(found)
