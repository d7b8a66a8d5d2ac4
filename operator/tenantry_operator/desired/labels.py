"""Labels, selectors and owner references of the children."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import names
from tenantry_api.policy import TenantServingPolicy

ENGINE = "tenantry-engine"


@dataclass(frozen=True)
class Owner:
    """The policy as an owner: what an owner reference says of it."""

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Owner":
        """The owner that a policy's manifest stands for."""
        meta = body["metadata"]
        return cls(meta["name"], meta["namespace"], meta["uid"])

    @property
    def reference(self) -> dict[str, Any]:
        """What makes the garbage collector delete a child with its policy."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def selector(name: str) -> dict[str, str]:
    """The labels by which a Deployment and a Service named `name` find their pods; immutable."""
    return {"app.kubernetes.io/name": ENGINE, "app.kubernetes.io/instance": name}


def labels(policy: TenantServingPolicy) -> dict[str, str]:
    """The labels of every child of a policy, pods included."""
    return {
        **selector(policy.metadata.name),
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/part-of": "tenantry",
        "app.kubernetes.io/managed-by": names.FIELD_MANAGER,
        names.LABEL_POLICY: policy.metadata.name,
    }


def metadata(policy: TenantServingPolicy, owner: Owner) -> dict[str, Any]:
    """The metadata of every child: all of them are named as the policy."""
    return {
        "name": owner.name,
        "namespace": owner.namespace,
        "labels": labels(policy),
        "ownerReferences": [owner.reference],
    }
