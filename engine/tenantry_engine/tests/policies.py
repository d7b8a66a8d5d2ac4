"""Builders of the policies and configurations that the engine's tests start from."""

import ipaddress
import json
from collections.abc import Mapping
from typing import Any

from tenantry_engine.config import EngineConfig


def a_body(tenants: Mapping[str, float] | None = None, **spec: Any) -> dict[str, Any]:
    """A whole policy named `chat` as a document; `spec` is merged into its spec."""
    listed = {"gold": 3, "free": 1} if tenants is None else tenants
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "TenantServingPolicy",
        "metadata": {"name": "chat", "namespace": "llm"},
        "spec": {
            "model": {"name": "a/model"},
            "identity": {"trustedPeers": ["127.0.0.0/8"]},
            "tenants": [{"name": name, "weight": weight} for name, weight in listed.items()],
            **spec,
        },
    }


def a_text(tenants: Mapping[str, float] | None = None, **spec: Any) -> str:
    """The same, as the text of a policy file."""
    return json.dumps(a_body(tenants, **spec))


def a_config(*tenants: str, **changes: Any) -> EngineConfig:
    """What an engine knows of policy `chat` with these tenants, all of weight 1."""
    named = tenants or ("gold", "free")
    given: dict[str, Any] = {
        "policy": "chat",
        "tenants": named,
        "weights": dict.fromkeys(named, 1.0),
        "trusted_peers": (ipaddress.ip_network("10.0.0.0/8"),),
        **changes,
    }
    return EngineConfig(**given)
