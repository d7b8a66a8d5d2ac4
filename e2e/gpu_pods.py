"""Policies and GPU pods for tests of the division of GPUs, judged by where the pods are bound."""

import json
from collections.abc import Mapping
from typing import Any

from e2e.cluster.handle import Cluster

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
POLICY_LABEL = "tenantry.dev/policy"
SCHEDULER = "tenantry-scheduler"
IDLE = "example/idle:1"

Body = dict[str, Any]


def a_policy(namespace: str, name: str, **spec: Any) -> Body:
    """A policy whose engine does nothing; `spec` goes over the rest, field by field."""
    whole = {"model": {"name": "m"}, "engine": {"image": IDLE, "replicas": 1}}
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "TenantServingPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**whole, "scheduling": {"mode": "Off"}, **spec},
    }


def a_pod(namespace: str, policy: str, index: int, **spec: Any) -> Body:
    """A pod of a policy that asks for one GPU, or for what `spec["limits"]` says."""
    limits = spec.pop("limits", {GPU: "1"})
    container = {"name": "engine", "image": IDLE, "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{policy}-{index}",
            "namespace": namespace,
            "labels": {POLICY_LABEL: policy},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def apply(cluster: Cluster, *bodies: Mapping[str, Any]) -> None:
    """Create or change these objects, in their order."""
    whole = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


def pods_of(cluster: Cluster, namespace: str, policy: str = "") -> list[Body]:
    """The pods of a policy, or all, that are not being deleted; oldest first."""
    selector = [f"--selector={POLICY_LABEL}={policy}"] if policy else []
    listed = json.loads(
        cluster.kubectl("get", "pods", f"--namespace={namespace}", "--output=json", *selector)
    )
    pods = [pod for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def bound(cluster: Cluster, namespace: str, policy: str = "") -> int:
    """How many of them have a node."""
    return sum("nodeName" in pod["spec"] for pod in pods_of(cluster, namespace, policy))


def reasons(cluster: Cluster, namespace: str, policy: str) -> list[str]:
    """What the PodScheduled conditions of the pods without a node say; "" where there is none."""
    waiting = [p for p in pods_of(cluster, namespace, policy) if "nodeName" not in p["spec"]]
    return [_message(pod) for pod in waiting]


def _message(pod: Body) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
