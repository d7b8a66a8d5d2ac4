"""The canonical bytes of a policy and their hash."""

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenantry_api import document, parse
from tenantry_api.tests.policies import FULL, a_policy


def test_canonical_json_is_stable() -> None:
    body = a_policy(FULL)
    turned = {key: body[key] for key in reversed(body)}
    turned["spec"] = {key: body["spec"][key] for key in reversed(body["spec"])}
    turned["metadata"] = {"labels": {"a": "b"}, **body["metadata"]}
    assert document.canonical(parse.policy(body)) == document.canonical(parse.policy(turned))


def test_canonical_json_has_sorted_keys_no_spaces_and_no_more_than_is_promised() -> None:
    data = document.canonical(parse.policy(a_policy() | {"status": {"replicas": 3}}))
    body = json.loads(data)
    assert data == json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    assert set(body) == {"apiVersion", "kind", "metadata", "spec"}
    assert body["metadata"] == {"name": "chat", "namespace": "default"}


def test_the_hash_is_12_hex_digits_and_changes_with_a_weight() -> None:
    one, other = (
        document.policy_hash(
            document.canonical(
                parse.policy(a_policy({"tenants": [{"name": "a", "weight": weight}]}))
            )
        )
        for weight in (1, 2)
    )
    assert re.fullmatch("[0-9a-f]{12}", one)
    assert one != other


def test_the_bytes_are_pinned_so_that_an_upgrade_does_not_restart_every_engine() -> None:
    data = document.canonical(parse.policy(a_policy({"tenants": [{"name": "gold", "weight": 3}]})))
    assert data.decode() == (
        '{"apiVersion":"tenantry.dev/v1alpha1","kind":"TenantServingPolicy",'
        '"metadata":{"name":"chat","namespace":"default"},"spec":{'
        '"engine":{"args":[],"replicas":1},"gpu":{"count":1,"sharing":"Exclusive"},'
        '"kvCache":{"eviction":"LRU","highWatermarkPercent":10,"isolation":"Tenant",'
        '"lowWatermarkPercent":5},"model":{"name":"m","servedName":"chat"},'
        '"priorityClassName":"tenantry-standard","scheduling":{"fairness":"GPUTime",'
        '"mode":"Enforce","ordering":"Cost","stepBudget":"auto","tokenDelay":"1s"},'
        '"tenants":[{"kvCache":{"limitPercent":100,"reservePercent":0},"name":"gold",'
        '"tier":"Standard","weight":"3"}],"unknownTenant":"Default","weight":"1"}}'
    )


def test_equal_values_written_differently_have_equal_bytes() -> None:
    one = a_policy({"weight": "0.5", "scheduling": {"tokenDelay": "90s"}})
    other = a_policy({"weight": "500m", "scheduling": {"tokenDelay": "1m30s"}})
    assert document.canonical(parse.policy(one)) == document.canonical(parse.policy(other))


def test_a_null_inside_the_pod_template_stays() -> None:
    policy = parse.policy(a_policy({"engine": {"template": {"spec": {"hostname": None}}}}))
    assert document.as_dict(policy)["spec"]["engine"]["template"] == {"spec": {"hostname": None}}


def test_a_name_in_another_script_is_written_as_it_is() -> None:
    data = document.canonical(parse.policy(a_policy({"tenants": [{"name": "顧客"}]})))
    assert "顧客" in data.decode()


WEIGHTS = st.one_of(
    st.integers(1, 1_000_000),
    st.integers(1, 1_000_000).map(lambda number: f"{number}m"),
    st.decimals(1, 1000, places=3).map(str),
)
NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=128).filter(
    lambda name: name != "other"
)
DURATIONS = st.tuples(st.integers(1, 999), st.sampled_from(["h", "m", "s", "ms", "us"])).map(
    lambda pair: f"{min(pair[0], 99)}h" if pair[1] == "h" else f"{pair[0]}{pair[1]}"
)
TENANTS = st.lists(
    st.builds(
        lambda name, weight, limit, delay: {
            "name": name,
            "weight": weight,
            "kvCache": {"limitPercent": limit},
            "limits": {"queueTimeout": delay},
        },
        NAMES,
        WEIGHTS,
        st.integers(0, 100),
        DURATIONS,
    ),
    max_size=6,
    unique_by=lambda tenant: tenant["name"],
)


# How fast the machine is says nothing about the policy.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TENANTS, WEIGHTS, DURATIONS)
def test_what_is_written_reads_back_as_the_same_policy(
    tenants: list[dict[str, Any]], weight: int | str, delay: str
) -> None:
    body = a_policy({"tenants": tenants, "weight": weight, "scheduling": {"stepBudget": delay}})
    policy = parse.policy(body)
    data = document.canonical(policy)
    again = parse.text(data.decode(), "policy.json")
    assert again == policy
    assert document.canonical(again) == data
