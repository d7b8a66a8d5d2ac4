"""All that a policy should have, in the order in which it is applied."""

from typing import Any

from tenantry_api.policy import TenantServingPolicy
from tenantry_operator.desired.configmap import configmap
from tenantry_operator.desired.deployment import deployment
from tenantry_operator.desired.labels import Owner
from tenantry_operator.desired.service import service
from tenantry_operator.settings import Settings


def children(
    policy: TenantServingPolicy, owner: Owner, settings: Settings
) -> tuple[dict[str, Any], ...]:
    """The manifests; the ConfigMap comes before the Deployment whose pods mount it."""
    return (
        configmap(policy, owner),
        service(policy, owner),
        deployment(policy, owner, settings),
    )
