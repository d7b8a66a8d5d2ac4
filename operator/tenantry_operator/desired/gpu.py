"""The GPU claim of one replica, as Kubernetes reads it: resources and node labels.

The names are those of the NVIDIA device plugin with `renameByDefault`: a whole GPU is
`nvidia.com/gpu`, a piece of a shared one `nvidia.com/gpu.shared`, a MIG instance
`nvidia.com/mig-<profile>`.
"""

from dataclasses import dataclass, field
from decimal import Decimal

from tenantry_api.policy import Gpu, Sharing

WHOLE = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"
LABEL_STRATEGY = "nvidia.com/gpu.sharing-strategy"
LABEL_REPLICAS = "nvidia.com/gpu.replicas"
STRATEGIES = {Sharing.MPS: "mps", Sharing.TIME_SLICING: "time-slicing"}
MEMORY_HEADROOM = Decimal("0.9")


@dataclass(frozen=True)
class Claim:
    """What the pod asks for, and where it may run."""

    limits: dict[str, str]
    node_selector: dict[str, str] = field(default_factory=dict)


def claim(gpu: Gpu) -> Claim:
    """The claim of one replica.

    A share is one device of a node that splits its GPUs in exactly that many: a node with another
    split would give another share under the same resource name.
    """
    if gpu.sharing is Sharing.EXCLUSIVE:
        return Claim({WHOLE: str(gpu.count)})
    if gpu.sharing is Sharing.MIG:
        return Claim({MIG_PREFIX + str(gpu.mig_profile).replace("+", "."): "1"})
    labels = {LABEL_STRATEGY: STRATEGIES[gpu.sharing], LABEL_REPLICAS: str(gpu.split)}
    return Claim({SHARED: "1"}, labels)


def memory_fraction(gpu: Gpu) -> str | None:
    """vLLM's `--gpu-memory-utilization` for a share of a GPU, None for a GPU of its own.

    vLLM takes the fraction of the whole GPU's memory, whatever the share, so the replicas beside
    it would find none left.
    """
    if gpu.split is None:
        return None
    return f"{MEMORY_HEADROOM / gpu.split:.3f}"


def describe(gpu: Gpu) -> str:
    """The claim in a word or two, for `kubectl get`: `1`, `0.5 MPS`, `3g.40gb MIG`."""
    if gpu.sharing is Sharing.EXCLUSIVE:
        return str(gpu.count)
    if gpu.sharing is Sharing.MIG:
        return f"{gpu.mig_profile} MIG"
    return f"{(gpu.share or Decimal(0)).normalize():f} {gpu.sharing}"
