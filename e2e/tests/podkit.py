"""Builders and questions about pods for the tests of the node agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from e2e.poll import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.cluster.handle import Cluster

Object = dict[str, Any]
IDLE, ECHO = "example/idle:1", "example/echo:1"


def a_container(name: str = "main", image: str = IDLE, **fields: Any) -> Object:
    """A container with defaults."""
    return {"name": name, "image": image, **fields}


def a_shell(script: str, name: str = "main", **fields: Any) -> Object:
    """A container that runs a shell script."""
    return a_container(name, command=["sh", "-c", script], **fields)


def a_pod(namespace: str, name: str, *containers: Object, **spec: Any) -> Object:
    """A pod with defaults: one idle container, two seconds of grace."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": list(containers) or [a_container()],
            **spec,
        },
    }


def a_service(namespace: str, name: str, **port: Any) -> Object:
    """A Service on port 80 for the pods whose label `app` is its name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080, **port}]},
    }


def apply(cluster: Cluster, *objects: Object) -> None:
    """Apply manifests."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(items))


def pod(cluster: Cluster, namespace: str, name: str) -> Object:
    """The pod's object."""
    found: Object = json.loads(cluster.kubectl("get", "pod", name, f"-n{namespace}", "-ojson"))
    return found


def state(cluster: Cluster, namespace: str, name: str, container: str = "main") -> Object:
    """A container's status; empty before it has one."""
    status = pod(cluster, namespace, name).get("status", {})
    for each in (*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])):
        if each["name"] == container:
            found: Object = each
            return found
    return {}


def wait_for(
    cluster: Cluster,
    namespace: str,
    name: str,
    what: Callable[[Object], bool],
    seconds: float = 30.0,
) -> Object:
    """The pod as soon as `what` is true of it."""
    return until(
        f"pod {name}",
        lambda: found if what(found := pod(cluster, namespace, name)) else None,
        seconds,
    )


def is_ready(found: Object) -> bool:
    """Whether the pod's condition Ready is true."""
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def run_ready(cluster: Cluster, manifest: Object, seconds: float = 30.0) -> Object:
    """Apply a pod and wait until it is ready."""
    meta = manifest["metadata"]
    apply(cluster, manifest)
    return wait_for(cluster, meta["namespace"], meta["name"], is_ready, seconds)


def inside(cluster: Cluster, namespace: str, name: str, script: str) -> str:
    """What a shell script prints in a pod's first container."""
    return cluster.kubectl("exec", name, f"-n{namespace}", "--", "sh", "-c", script)


def phase_is(*phases: str) -> Callable[[Object], bool]:
    """Whether the pod is in one of these phases."""
    return lambda found: found.get("status", {}).get("phase") in phases


def waits_with(reason: str, container: str = "main") -> Callable[[Object], bool]:
    """Whether a container waits for this reason."""

    def check(found: Object) -> bool:
        statuses = found.get("status", {}).get("containerStatuses", [])
        return any(
            each["name"] == container and each["state"].get("waiting", {}).get("reason") == reason
            for each in statuses
        )

    return check
