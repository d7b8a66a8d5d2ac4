"""The resource on the real API server: examples are taken, mistakes are refused by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e import paths
from e2e.cluster.handle import Cluster
from tenantry_api import crd, document, names, parse
from tenantry_api.tests.policies import a_policy
from tenantry_api.tests.refusal import Refusal
from tenantry_api.tests.refusals import BAD_NAMES, NAME_MESSAGE, REFUSALS

pytestmark = pytest.mark.cluster

EXAMPLES = sorted((paths.checkout() / "docs" / "examples").glob("*.yaml"))
CREATED = "created (server dry run)"
DEFINITION = f"crd/{names.PLURAL}.{names.GROUP}"


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Cluster:
    """The cluster, with the resource defined."""
    manifest = paths.checkout() / crd.COPIES[0]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(manifest))
    cluster.kubectl("wait", "--for=condition=Established", DEFINITION, "--timeout=60s")
    return cluster


def answer(api: Cluster, body: Mapping[str, Any]) -> str:
    """What the API server says to a document that it is asked to try."""
    return api.kubectl(
        *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=json.dumps(body),
        check=False,
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_taken_and_means_the_same_as_its_file(
    api: Cluster, namespace: str, path: Path
) -> None:
    # No pod may start here, whether an operator is installed or not.
    api.kubectl("create", "quota", "none", "--hard=pods=0", "-n", namespace)
    api.kubectl("apply", "--validate=strict", "-n", namespace, "-f", str(path))
    policy = parse.text(path.read_text(encoding="utf-8"), path.name)
    stored = json.loads(
        api.kubectl("get", "tsp", policy.metadata.name, "-n", namespace, "-o", "json")
    )
    assert document.as_dict(parse.policy(stored))["spec"] == document.as_dict(policy)["spec"]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_the_api_server_refuses_what_a_file_may_not_say(api: Cluster, case: Refusal) -> None:
    said = answer(api, a_policy(case.spec))
    assert CREATED not in said
    assert case.expected in said


@pytest.mark.parametrize("name", BAD_NAMES)
def test_the_api_server_refuses_a_name_that_no_service_can_have(api: Cluster, name: str) -> None:
    assert NAME_MESSAGE in answer(api, a_policy(name=name))


@pytest.mark.parametrize("name", ["Team_A/Search", "Größe-Daten", "0123", "*", "a b", "x" * 128])
def test_the_api_server_takes_every_printable_tenant(api: Cluster, name: str) -> None:
    assert CREATED in answer(api, a_policy({"tenants": [{"name": name}]}))


def test_the_api_server_names_every_mistake_at_once(api: Cluster) -> None:
    spec = {
        "gpu": {"sharing": "MPS"},
        "kvCache": {"lowWatermarkPercent": 50},
        "tenants": [{"name": "gold", "weight": -1}],
    }
    said = answer(api, a_policy(spec))
    for path in ("spec.gpu.share", "spec.kvCache.lowWatermarkPercent", "spec.tenants[0].weight"):
        assert path in said


def test_the_rules_are_cheap_enough_for_the_largest_policy(api: Cluster) -> None:
    tenant = {
        "weight": "1.125",
        "kvCache": {"reservePercent": 1, "limitPercent": 60},
        "objectives": {kind: {"p99": "1m30s"} for kind in ("ttft", "itl", "e2e")},
        "limits": {"queueTimeout": "30s"},
        "identity": {"apiKeySecret": "s" * 253},
        "dedicated": {"gpu": {"sharing": "MPS", "share": "0.022"}},
    }
    spec = {
        "engine": {"args": ["--x=" + "y" * 4000] * 64},
        "identity": {"trustedPeers": ["10.0.0.0/8"] * 64},
        "tenants": [{"name": f"{number:0128d}", **tenant} for number in range(64)],
    }
    assert CREATED in answer(api, a_policy(spec))


def test_kubectl_explains_the_tenants(api: Cluster) -> None:
    text = " ".join(api.kubectl("explain", "tsp.spec.tenants").split())
    assert "FIELD: tenants <[]Object>" in text
    assert "The customers that share these engines, and what each may claim." in text
    assert "weight" in text
    assert "0: served only when nobody else waits." in text
    assert "name <string> -required-" in text


def test_kubectl_lists_policies_by_category_with_the_columns_that_matter(
    api: Cluster, namespace: str
) -> None:
    api.kubectl("create", "quota", "none", "--hard=pods=0", "-n", namespace)
    api.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_policy()))
    header = api.kubectl("get", names.CATEGORY, "-n", namespace).splitlines()[0].split()
    assert header == ["NAME", "MODEL", "TENANTS", "SHARE", "READY", "REASON", "AGE"]
