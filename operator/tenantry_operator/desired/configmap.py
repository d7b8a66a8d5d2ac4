"""The policy as the engines read it."""

from typing import Any

from tenantry_api import document, names
from tenantry_api.policy import TenantServingPolicy
from tenantry_operator.desired.labels import Owner, metadata


def configmap(policy: TenantServingPolicy, owner: Owner) -> dict[str, Any]:
    """The ConfigMap with the canonical bytes; mounted unless `mode: Off`, and always there."""
    text = document.canonical(policy).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(policy, owner),
        "data": {names.POLICY_FILE_KEY: text},
    }
