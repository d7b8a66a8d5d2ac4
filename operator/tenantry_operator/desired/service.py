"""The Service in front of a policy's engines."""

from typing import Any

from tenantry_api import names
from tenantry_api.policy import TenantServingPolicy
from tenantry_operator.desired.labels import Owner, metadata, selector


def service(policy: TenantServingPolicy, owner: Owner) -> dict[str, Any]:
    """A ClusterIP Service: `http` for requests, `metrics` for the engines' own metrics."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(policy, owner),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(policy.metadata.name),
            "ports": [_port("http", names.PORT_HTTP), _port("metrics", names.PORT_METRICS)],
        },
    }


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
