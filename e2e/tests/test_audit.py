"""What the API server's audit log of this run says of our accounts: every right used, none missing.

These tests look back on the whole session, so `e2e/conftest.py` runs them last. Alone they make
happen what the rights are for.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from e2e import gpu_pods
from e2e.cluster.handle import Cluster
from e2e.gpu_pods import IDLE, a_pod, a_policy, pods_of, reasons
from e2e.poll import until
from e2e.release import NAMESPACE
from e2e.tests.test_extender_wire import LONELY, OVER_SHARE
from e2e.tests.test_operator import Policy
from tenantry_api.names import ANNOTATION_POKE

pytestmark = pytest.mark.cluster

ACCOUNTS = f"system:serviceaccount:{NAMESPACE}:"
GPUS = 8

CREATED_BY_APPLY = (
    "server-side apply asks for it when the object does not exist yet; the log shows the patch"
)

UNUSED = {
    ("tenantry-operator", "configmaps", "create"): CREATED_BY_APPLY,
    ("tenantry-operator", "deployments", "create"): CREATED_BY_APPLY,
    ("tenantry-operator", "services", "create"): CREATED_BY_APPLY,
    ("tenantry-operator", "tenantservingpolicies/finalizers", "update"): (
        "asked for only where the admission plugin OwnerReferencesPermissionEnforcement is on"
    ),
}
"""Rights that a run of these tests does not use, each with the reason why it is given."""

MOST_UNUSED = 5


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; `name` where the rule names the object."""

    account: str
    group: str
    resource: str
    verb: str
    name: str = ""


def events(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The requests of our accounts."""
    with cluster.audit_log.open() as lines:
        for line in lines:
            event = json.loads(line)
            if event["user"]["username"].startswith(ACCOUNTS):
                yield event


def used(event: dict[str, Any]) -> Right | None:
    """The right that a request needed; None for a path that is no resource."""
    found = event.get("objectRef")
    if found is None:
        return None
    parts = [found["resource"], found.get("subresource", "")]
    account = event["user"]["username"].removeprefix(ACCOUNTS)
    resource, group = "/".join(filter(None, parts)), found.get("apiGroup", "")
    return Right(account, group, resource, event["verb"], found.get("name", ""))


def given(cluster: Cluster) -> Iterator[Right]:
    """Every right in the chart's own roles."""
    selector = "app.kubernetes.io/part-of=tenantry"
    text = cluster.kubectl("get", "clusterroles,roles", "-A", "-l", selector, "-o", "json")
    for role in json.loads(text)["items"]:
        for rule in role["rules"]:
            names = rule.get("resourceNames", [""])
            for each in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], names
            ):
                yield Right(role["metadata"]["name"], *each)


@pytest.fixture
def exercised(installed: Cluster, namespace: str) -> Cluster:
    """The session's cluster, in which a policy became Ready and a pod was poked."""
    policy = Policy(installed, namespace)
    policy.apply()
    policy.wait("Ready", "True", "Ready")
    nothing = {"image": IDLE, "replicas": 0}
    gpu_pods.apply(installed, *[a_policy(namespace, name, engine=nothing) for name in "ab"])
    gpu_pods.apply(installed, *[a_pod(namespace, "b", n, **LONELY) for n in range(GPUS)])
    until("the pods of b were tried", lambda: all(reasons(installed, namespace, "b")))
    gpu_pods.apply(installed, *[a_pod(namespace, "a", n) for n in range(GPUS)])
    until("a pod of a waits for b", lambda: OVER_SHARE in str(reasons(installed, namespace, "a")))
    policy.run("delete", "pods", f"--selector={gpu_pods.POLICY_LABEL}=b", "--wait=false")
    until("a pod of a is poked", lambda: poked(installed, namespace))
    return installed


def poked(cluster: Cluster, namespace: str) -> bool:
    found = pods_of(cluster, namespace, "a")
    return any(ANNOTATION_POKE in pod["metadata"].get("annotations", {}) for pod in found)


def test_every_right_of_the_chart_is_used_or_explained(exercised: Cluster) -> None:
    seen = {right for event in events(exercised) if (right := used(event)) is not None}
    without_name = {replace(right, name="") for right in seen}
    rights = set(given(exercised))
    assert rights, "no role of the chart was found"
    unused = {right for right in rights if right not in (seen if right.name else without_name)}
    assert {(right.account, right.resource, right.verb) for right in unused} == set(UNUSED)
    assert len(UNUSED) <= MOST_UNUSED


def test_no_request_of_our_accounts_is_forbidden(installed: Cluster) -> None:
    ours = list(events(installed))
    assert {event["user"]["username"] for event in ours} == {
        f"{ACCOUNTS}tenantry-operator",
        f"{ACCOUNTS}tenantry-scheduler",
    }
    forbidden = [
        (event["verb"], event["requestURI"], event["responseStatus"].get("message", ""))
        for event in ours
        if event.get("responseStatus", {}).get("code") == 403
    ]
    assert forbidden == []
