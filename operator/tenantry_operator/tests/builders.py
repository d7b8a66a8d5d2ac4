"""Policies, pods and facts with defaults, so that a test names only what it is about."""

from collections.abc import Mapping
from typing import Any

from tenantry_api import parse
from tenantry_api.policy import TenantServingPolicy
from tenantry_operator.desired.deployment import deployment
from tenantry_operator.desired.labels import Owner
from tenantry_operator.engines import Engine
from tenantry_operator.judge import Facts, Obstacle
from tenantry_operator.observed import Pod, Rollout
from tenantry_operator.settings import Settings

OWNER = Owner("chat", "llm", "uid-1")
TEMPLATE_HASH = "abc"


def a_body(**spec: Any) -> dict[str, Any]:
    """A policy as the API server gives it."""
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "TenantServingPolicy",
        "metadata": {"name": "chat", "namespace": "llm", "uid": "uid-1", "generation": 3},
        "spec": {"model": {"name": "org/model"}, **spec},
    }


def a_policy(**spec: Any) -> TenantServingPolicy:
    return parse.policy(a_body(**spec))


def a_deployment(settings: Settings | None = None, **spec: Any) -> dict[str, Any]:
    """The Deployment that a policy with this spec should have."""
    return deployment(a_policy(**spec), OWNER, settings or Settings())


def a_pod(name: str = "chat-abc-1", **fields: Any) -> Pod:
    """An engine pod that serves."""
    given = {"ready": True, "running": True, "placed": True, "address": "10.0.0.1", **fields}
    return Pod(name=name, uid=f"uid-of-{name}", **given)


def facts(
    engines: Mapping[str, Engine] | None = None,
    rollout: Rollout | None = None,
    obstacle: Obstacle | None = None,
    pods: tuple[Pod, ...] = (a_pod(),),
    **spec: Any,
) -> Facts:
    """What is known of a policy; by default one engine serves and our scheduler decides in it."""
    count = len(pods)
    done = Rollout(count, count, count, count, count, seen=True)
    active = {pod.uid: Engine(active=True, reason="Enforce", policy_hash="h1") for pod in pods}
    return Facts(
        policy=a_policy(**spec),
        rollout=done if rollout is None else rollout,
        pods=pods,
        engines=active if engines is None else engines,
        obstacle=obstacle,
    )


def a_pod_manifest(name: str = "chat-abc-1", **status: Any) -> dict[str, Any]:
    """A pod of the Deployment `chat` as the API server gives it."""
    labels = {
        "app.kubernetes.io/name": "tenantry-engine",
        "app.kubernetes.io/instance": "chat",
        "pod-template-hash": TEMPLATE_HASH,
        "tenantry.dev/policy": "chat",
    }
    owner = {"kind": "ReplicaSet", "name": f"chat-{TEMPLATE_HASH}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": f"uid-of-{name}",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "status": status,
    }
