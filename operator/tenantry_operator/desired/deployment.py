"""The Deployment of a policy's engines."""

from typing import Any

from tenantry_api.policy import TenantServingPolicy
from tenantry_operator.desired.labels import Owner, labels, metadata, selector
from tenantry_operator.desired.pod import STARTUP_SECONDS, pod_spec
from tenantry_operator.merge import merge
from tenantry_operator.settings import Settings

PROGRESS_SECONDS = STARTUP_SECONDS + 600


def deployment(policy: TenantServingPolicy, owner: Owner, settings: Settings) -> dict[str, Any]:
    """The Deployment, with the policy's template laid over ours.

    The policy itself is no part of the pod template: a changed weight must not replace a pod.
    """
    rendered = {"metadata": {"labels": labels(policy)}, "spec": pod_spec(policy, settings)}
    template = merge(rendered, policy.spec.engine.template or {})
    # Without these the pods would be nobody's, so no template takes them away.
    template = merge(template, {"metadata": {"labels": labels(policy)}})
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector(policy.metadata.name)},
        # A roll-out never needs a spare GPU: an old pod goes before its successor comes.
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        },
        "progressDeadlineSeconds": PROGRESS_SECONDS,
        "template": template,
    }
    if policy.spec.engine.autoscaling is None:
        replicas = policy.spec.engine.replicas
        spec["replicas"] = 1 if replicas is None else replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(policy, owner),
        "spec": spec,
    }
