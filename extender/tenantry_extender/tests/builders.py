"""Kubernetes objects as the API sends them, with defaults; and books made of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tenantry_api import names
from tenantry_extender.books import Books, Kind
from tenantry_extender.snapshot import Snapshot

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
OTHERS = "default-scheduler"
NAMESPACE = "llm"

Body = dict[str, Any]


def a_node(name: str = "gpu-0", gpus: int = 4, **more: Any) -> Body:
    """A ready node of whole GPUs; `more`: labels, taints, unschedulable, ready, resources."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    resources |= more.get("resources", {GPU: str(gpus)})
    return {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {
            "taints": more.get("taints"),
            "unschedulable": more.get("unschedulable", False),
        },
        "status": {
            "capacity": resources,
            "allocatable": {**resources, **more.get("allocatable", {})},
            "conditions": [{"type": "Ready", "status": str(more.get("ready", True))}],
        },
    }


def a_sharing_node(name: str = "gpu-0", gpus: int = 4, replicas: int = 2) -> Body:
    """A node whose GPUs MPS splits."""
    labels = {
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": "mps",
    }
    return a_node(name, labels=labels, resources={SHARED: str(gpus * replicas)})


def a_pod(name: str, policy: str = "", **more: Any) -> Body:
    """A pod that asks for one GPU and names our scheduler; its uid is `uid-NAME`. `more`:
    namespace, node, nominated, resources, scheduler, created, phase, ending, gated, message,
    selector, spec."""
    limits = more.get("resources", {GPU: "1"})
    status: Body = {"phase": more.get("phase", "Pending")}
    if "nominated" in more:
        status["nominatedNodeName"] = more["nominated"]
    if "message" in more:
        reason = more.get("reason", "Unschedulable")
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": more["message"],
            }
        ]
    metadata: Body = {
        "name": name,
        "namespace": more.get("namespace", NAMESPACE),
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": more.get("created", "2026-01-01T12:00:00Z"),
        "labels": {names.LABEL_POLICY: policy} if policy else {},
    }
    if more.get("ending"):
        metadata["deletionTimestamp"] = "2026-01-01T13:00:00Z"
    spec: Body = {
        "schedulerName": more.get("scheduler", names.SCHEDULER_NAME),
        "containers": [{"name": "engine", "resources": {"limits": limits, "requests": limits}}],
        "nodeSelector": more.get("selector"),
        "schedulingGates": [{"name": "wait"}] if more.get("gated") else None,
        **more.get("spec", {}),
    }
    if "node" in more:
        spec["nodeName"] = more["node"]
    return {"metadata": metadata, "spec": spec, "status": status}


def some_pods(policy: str, number: int, **more: Any) -> list[Body]:
    return [a_pod(f"{policy}-{index}", policy, **more) for index in range(number)]


def a_policy(name: str, weight: object = 1, namespace: str = NAMESPACE) -> Body:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"weight": weight}}


def a_namespace(name: str = NAMESPACE, weight: str | None = None) -> Body:
    labels = {} if weight is None else {names.LABEL_NAMESPACE_WEIGHT: weight}
    return {"metadata": {"name": name, "labels": labels}}


def books_of(
    nodes: Iterable[Body] = (),
    pods: Iterable[Body] = (),
    policies: Iterable[Body] = (),
    namespaces: Iterable[Body] = (),
) -> Books:
    """Complete books at time 0; holds last 30 s."""
    books = Books(Snapshot(frozenset({names.SCHEDULER_NAME})), 30.0)
    books.replace(Kind.NODES, nodes, 0.0)
    books.replace(Kind.PODS, pods, 0.0)
    books.replace(Kind.POLICIES, policies, 0.0)
    books.replace(Kind.NAMESPACES, namespaces, 0.0)
    return books


def two_policies(a_pods: int = 4, b_pods: int = 2, nodes: Iterable[Body] | None = None) -> Books:
    """Policies `a` and `b` of equal weight, with waiting pods, on four GPUs."""
    return books_of(
        nodes=[a_node()] if nodes is None else nodes,
        pods=[*some_pods("a", a_pods), *some_pods("b", b_pods)],
        policies=[a_policy("a"), a_policy("b")],
    )


def a_question(pod: Mapping[str, Any], *nodes: str) -> Body:
    """What kube-scheduler sends for filter and prioritize with `nodeCacheCapable: true`."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes or ("gpu-0",))}
