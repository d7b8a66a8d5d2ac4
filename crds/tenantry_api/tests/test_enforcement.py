"""A setting has its effect, is refused, or is mentioned: never silence."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from tenantry_api import parse, schema
from tenantry_api.enforcement import EFFECTIVE, MENTIONS, is_mentioned, unenforced
from tenantry_api.policy import Spec
from tenantry_api.tests.policies import a_policy

# A valid value that asks for something, for every leaf that has to be mentioned.
ASKING: Mapping[str, Any] = {
    "engine.autoscaling.min": 1,
    "engine.autoscaling.max": 4,
    "scheduling.ordering": "Deadline",
    "scheduling.tokenDelay": "2s",
    "kvCache.eviction": "LFU",
    "kvCache.lowWatermarkPercent": 2,
    "kvCache.highWatermarkPercent": 20,
    "tenants[].kvCache.reservePercent": 20,
    "tenants[].kvCache.limitPercent": 60,
    "tenants[].kvCache.group": "team-a",
    "tenants[].objectives.ttft.p99": "500ms",
    "tenants[].objectives.itl.p99": "50ms",
    "tenants[].objectives.e2e.p99": "10s",
    "tenants[].limits.inFlight": 64,
    "tenants[].limits.queued": 256,
    "tenants[].limits.queuedTokens": 200_000,
    "tenants[].limits.queueTimeout": "30s",
    "tenants[].limits.tokensPerMinute": 100_000,
    "tenants[].identity.apiKeySecret": "gold-key",
    "tenants[].dedicated.replicas": 1,
    "tenants[].dedicated.gpu.sharing": "Exclusive",
    "tenants[].dedicated.gpu.count": 2,
    "tenants[].dedicated.gpu.share": "0.5",
    "tenants[].dedicated.gpu.migProfile": "1g.10gb",
    "tenants[].dedicated.priorityClassName": "tenantry-critical",
}
# What has to stand beside a leaf so that the document is valid.
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "engine.autoscaling.min": {"engine.autoscaling.max": 4},
    "tenants[].dedicated.gpu.share": {"tenants[].dedicated.gpu.sharing": "MPS"},
    "tenants[].dedicated.gpu.migProfile": {"tenants[].dedicated.gpu.sharing": "MIG"},
}


def leaves(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The path of every field of a schema that has no fields itself."""
    for name, child in node["properties"].items():
        here = f"{path}.{name}" if path else name
        below = child.get("items", child)
        if "properties" in below:
            yield from leaves(below, here + ("[]" if child["type"] == "array" else ""))
        else:
            yield here


LEAVES = tuple(leaves(schema.structural(Spec)))


def test_the_schema_has_the_leaves_that_the_design_names() -> None:
    assert len(LEAVES) > 50
    assert {"model.name", "tenants[].limits.queueTimeout", "engine.template"} <= set(LEAVES)


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_leaf_has_its_effect_or_is_mentioned(leaf: str) -> None:
    effective = any(leaf == path or leaf.startswith(f"{path}.") for path in EFFECTIVE)
    mentioned = any(leaf == item.path or leaf.startswith(f"{item.path}.") for item in MENTIONS)
    assert effective or mentioned, f"say in enforcement.py what {leaf} does"
    assert not (effective and mentioned), f"{leaf} cannot be both"
    if effective:
        return
    assert leaf in ASKING, f"give {leaf} a value that asks for something"
    policy = parse.policy(a_policy(_asking(leaf)))
    paths = unenforced(policy)
    concrete = f"spec.{leaf}".replace("tenants[]", "tenants[gold]")
    assert [path for path in paths if concrete == path or concrete.startswith(f"{path}.")]


def test_every_path_of_the_tables_is_in_the_schema() -> None:
    for path in (*EFFECTIVE, *(mention.path for mention in MENTIONS)):
        assert [leaf for leaf in LEAVES if leaf == path or leaf.startswith(f"{path}.")], path


def test_defaults_that_are_not_honoured_are_mentioned_too() -> None:
    policy = parse.policy(a_policy({"tenants": [{"name": "gold"}]}))
    assert unenforced(policy) == (
        "spec.scheduling.tokenDelay",
        "spec.kvCache.eviction",
        "spec.kvCache.lowWatermarkPercent",
        "spec.kvCache.highWatermarkPercent",
    )


def test_what_is_honoured_is_not_mentioned() -> None:
    spec = {
        "scheduling": {"ordering": "SJF"},
        "kvCache": {"isolation": "Group"},
        "tenants": [{"name": "gold", "tier": "Critical", "kvCache": {"group": "team-a"}}],
    }
    paths = unenforced(parse.policy(a_policy(spec)))
    assert "spec.scheduling.ordering" not in paths
    assert not [path for path in paths if path.startswith("spec.tenants")]


def test_a_group_without_isolation_by_group_is_mentioned() -> None:
    spec = {"tenants": [{"name": "gold", "kvCache": {"group": "team-a"}}]}
    assert "spec.tenants[gold].kvCache.group" in unenforced(parse.policy(a_policy(spec)))


def test_a_path_names_the_tenant() -> None:
    spec = {"tenants": [{"name": "a"}, {"name": "b c", "limits": {"inFlight": 3}}]}
    assert "spec.tenants[b c].limits.inFlight" in unenforced(parse.policy(a_policy(spec)))


def test_with_the_engine_off_only_the_deployment_is_asked_for_anything() -> None:
    spec = {
        "scheduling": {"mode": "Off", "ordering": "SJF"},
        "engine": {"autoscaling": {"max": 2}},
        "tenants": [{"name": "gold", "tier": "Batch", "dedicated": {}}],
    }
    assert unenforced(parse.policy(a_policy(spec))) == (
        "spec.engine.autoscaling",
        "spec.tenants[gold].dedicated",
    )


def test_observing_asks_for_what_is_measured_but_for_no_order() -> None:
    objectives = {"ttft": {"p99": "1s"}}
    spec = {
        "scheduling": {"mode": "Observe"},
        "tenants": [{"name": "gold", "tier": "Batch", "objectives": objectives}],
    }
    assert unenforced(parse.policy(a_policy(spec))) == ("spec.tenants[gold].objectives.ttft.p99",)


def test_the_reference_page_asks_the_same_table() -> None:
    assert is_mentioned("tenants[].limits.inFlight")
    assert is_mentioned("tenants[].dedicated.gpu.count")
    assert not is_mentioned("tenants[].weight")
    assert not is_mentioned("scheduling.ordering")


def _asking(leaf: str) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for path, value in {**BESIDE.get(leaf, {}), leaf: ASKING[leaf]}.items():
        _put(spec, path.split("."), deepcopy(value))
    return spec


def _put(body: dict[str, Any], steps: list[str], value: Any) -> None:
    head, *rest = steps
    if not rest:
        body[head] = value
    elif head == "tenants[]":
        _put(body.setdefault("tenants", [{"name": "gold"}])[0], rest, value)
    else:
        _put(body.setdefault(head, {}), rest, value)
