"""The nodes that a cluster should have, with labels as NVIDIA's GPU feature discovery sets them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster.layout import write_json

PRODUCT = "NVIDIA-A100-SXM4-80GB"


@dataclass(frozen=True)
class NodeSpec:
    """One node: its name, its labels and its capacity (resource name to quantity).

    The agent adds the labels that every kubelet sets, and ample CPU, memory and pods.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def gpu(cls, name: str, gpus: int = 4) -> "NodeSpec":
        """A node whose GPUs are given out whole; no GPUs, no GPU labels."""
        if not gpus:
            return cls(name)
        return cls(name, _labels(gpus, 1, "none"), {"nvidia.com/gpu": str(gpus)})

    @classmethod
    def mps(cls, name: str, gpus: int, replicas: int) -> "NodeSpec":
        """A node whose every GPU is split in `replicas` by MPS."""
        return cls._shared(name, gpus, replicas, "mps")

    @classmethod
    def time_slicing(cls, name: str, gpus: int, replicas: int) -> "NodeSpec":
        """A node whose every GPU is split in `replicas` by time-slicing."""
        return cls._shared(name, gpus, replicas, "time-slicing")

    @classmethod
    def _shared(cls, name: str, gpus: int, replicas: int, strategy: str) -> "NodeSpec":
        shared = {"nvidia.com/gpu.shared": str(gpus * replicas)}
        return cls(name, _labels(gpus, replicas, strategy), shared)


def gpu_nodes(count: int, gpus: int) -> tuple[NodeSpec, ...]:
    """`count` nodes of `gpus` whole GPUs each: `gpu-0`, `gpu-1`, and so on."""
    return tuple(NodeSpec.gpu(f"gpu-{index}", gpus) for index in range(count))


def write_nodes(path: Path, nodes: Sequence[NodeSpec]) -> None:
    """Write the file that the agent follows: a list of `{name, labels, capacity}`."""
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        raise ValueError(f"two nodes have one name in {names}; give each its own")
    write_json(
        path,
        [
            {"name": node.name, "labels": dict(node.labels), "capacity": dict(node.capacity)}
            for node in nodes
        ],
    )


def _labels(gpus: int, replicas: int, strategy: str) -> dict[str, str]:
    product = PRODUCT if strategy == "none" else f"{PRODUCT}-SHARED"
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.sharing-strategy": strategy,
        "nvidia.com/mig.capable": "false",
    }
