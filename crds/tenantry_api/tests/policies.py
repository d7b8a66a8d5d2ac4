"""Documents to test with: the smallest policy, and one in which every field is given."""

from collections.abc import Mapping
from typing import Any

from tenantry_api import names


def a_policy(spec: Mapping[str, Any] | None = None, name: str = "chat") -> dict[str, Any]:
    """A whole document: the smallest valid spec with the fields of `spec` over it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"model": {"name": "m"}, **(spec or {})},
    }


FULL: dict[str, Any] = {
    "model": {"name": "m", "servedName": "s", "source": {"claim": {"name": "c", "path": "a"}}},
    "engine": {
        "image": "i",
        "replicas": 2,
        "args": ["--max-model-len=8192"],
        "template": {"spec": {"hostname": None}},
    },
    "gpu": {"sharing": "MPS", "share": "0.5"},
    "priorityClassName": "tenantry-batch",
    "weight": "500m",
    "identity": {"header": "X-Team", "trustedPeers": ["10.0.0.0/8", "fd00::/8"]},
    "unknownTenant": "Refuse",
    "scheduling": {
        "mode": "Observe",
        "fairness": "Tokens",
        "ordering": "FIFO",
        "stepBudget": "50ms",
        "tokenDelay": "1.5s",
    },
    "kvCache": {
        "eviction": "Hybrid",
        "isolation": "Group",
        "lowWatermarkPercent": 1,
        "highWatermarkPercent": 2,
    },
    "tenants": [
        {
            "name": "gold",
            "weight": "2.5",
            "tier": "Critical",
            "kvCache": {"reservePercent": 20, "limitPercent": 60, "group": "team-a"},
            "objectives": {"e2e": {"p99": "10s"}},
            "limits": {
                "inFlight": 64,
                "queued": 256,
                "queuedTokens": 200000,
                "queueTimeout": "1m30s",
                "tokensPerMinute": 100000,
            },
            "identity": {"apiKeySecret": "gold-key"},
            "dedicated": {
                "replicas": 1,
                "gpu": {"sharing": "MIG", "migProfile": "3g.40gb"},
                "priorityClassName": "tenantry-critical",
            },
        },
        {"name": "free", "weight": 0},
    ],
}
