"""The ConfigMap and the Service of a policy, and what all children have in common."""

import json

from tenantry_api import document
from tenantry_operator.desired.children import children
from tenantry_operator.settings import Settings
from tenantry_operator.tests.builders import OWNER, a_policy


def test_every_child_is_named_as_the_policy_and_owned_by_it() -> None:
    made = children(a_policy(), OWNER, Settings())
    assert [item["kind"] for item in made] == ["ConfigMap", "Service", "Deployment"]
    for item in made:
        meta = item["metadata"]
        assert (meta["name"], meta["namespace"]) == ("chat", "llm")
        assert meta["labels"]["tenantry.dev/policy"] == "chat"
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "tenantry.dev/v1alpha1",
                "kind": "TenantServingPolicy",
                "name": "chat",
                "uid": "uid-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


def test_the_config_map_holds_the_canonical_bytes() -> None:
    policy = a_policy(tenants=[{"name": "gold", "weight": 3}])
    config_map, _, _ = children(policy, OWNER, Settings())
    text = config_map["data"]["policy.json"]
    assert text.encode() == document.canonical(policy)
    assert json.loads(text)["metadata"] == {"name": "chat", "namespace": "llm"}


def test_the_service_finds_the_deployments_pods() -> None:
    _, service, deployment = children(a_policy(), OWNER, Settings())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert {(port["name"], port["port"]) for port in service["spec"]["ports"]} == {
        ("http", 8000),
        ("metrics", 8001),
    }
