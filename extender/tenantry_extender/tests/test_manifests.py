import logging
from fractions import Fraction
from typing import Any

import pytest

from tenantry_core.placement import Requirement, Taint, Toleration
from tenantry_core.slices import Slice
from tenantry_extender import manifests
from tenantry_extender.tests.builders import (
    GPU,
    SHARED,
    a_namespace,
    a_node,
    a_pod,
    a_policy,
    a_sharing_node,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**30, 2)),
        ("1Ei", Fraction(2**60)),
        ("3k", Fraction(3000)),
        ("1E", Fraction(10**18)),
        ("2e3", Fraction(2000)),
        ("1E2", Fraction(100)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("-1", Fraction(-1)),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(text: object, value: Fraction) -> None:
    assert manifests.quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "one", "1 GB", "1kB", "--1", "nan", "1Kim", "9e99999999", None]
)
def test_what_is_no_quantity_is_an_error(text: object) -> None:
    with pytest.raises(ValueError, match="Kubernetes quantity"):
        manifests.quantity(text)


def test_a_node_is_read() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    node = manifests.node(a_node("gpu-7", 2, labels={"zone": "a"}, taints=[taint]))
    assert (node.name, node.labels, node.usable) == ("gpu-7", {"zone": "a"}, True)
    assert node.taints == (Taint("nvidia.com/gpu", "present", "NoSchedule"),)
    assert (node.allocatable[GPU], node.allocatable["cpu"]) == (2, 64000)
    assert node.slices == {GPU: Slice(GPU, "none", Fraction(1))}


@pytest.mark.parametrize("more", [{"ready": False}, {"unschedulable": True}], ids=str)
def test_a_node_that_takes_no_pods_is_not_usable(more: dict[str, Any]) -> None:
    assert not manifests.node(a_node(**more)).usable


def test_an_unhealthy_gpu_makes_no_slice_larger() -> None:
    body = a_sharing_node(gpus=4, replicas=2)
    body["status"]["allocatable"][SHARED] = "4"
    node = manifests.node(body)
    assert node.slices[SHARED].size * node.allocatable[SHARED] == 2


def test_a_pod_is_read() -> None:
    body = a_pod("chat-0", "chat", nominated="gpu-1", message="no room", created="2026-01-02")
    body["spec"]["priority"] = 100
    pod = manifests.pod(body)
    assert (pod.uid, pod.namespace, pod.name) == ("uid-chat-0", "llm", "chat-0")
    assert (pod.policy, pod.scheduler, pod.node) == ("chat", "tenantry-scheduler", "")
    assert (pod.nominated, pod.priority, pod.created) == ("gpu-1", 100, "2026-01-02")
    assert (pod.message, pod.reason, pod.version) == ("no room", "Unschedulable", "7")
    assert pod.wants.requests == {GPU: 1, "pods": 1}


def test_a_pod_with_nothing_but_its_identity_is_read() -> None:
    body = {"metadata": {"name": "x", "uid": "1"}, "spec": None, "status": None}
    assert manifests.pod(body).wants.requests == {"pods": 1}


def test_where_a_pod_may_run_is_read() -> None:
    expression = {"key": "gpu", "operator": "In", "values": ["a100"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}
    terms = [{"matchExpressions": [expression], "matchFields": [name]}, {}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
    }
    wants = manifests.pod(a_pod("x", spec=spec, selector={"zone": "a"})).wants
    assert wants.selector == {"zone": "a"}
    assert wants.tolerations == (
        Toleration(operator="Exists"),
        Toleration("k", "Equal", "v", "NoSchedule"),
    )
    first, empty = wants.terms
    assert first == (
        Requirement("gpu", "In", ("a100",)),
        Requirement("metadata.name", "In", ("gpu-0",)),
    )
    assert not any(requirement.holds({}) for requirement in empty)


def a_container(cpu: str, gpus: int = 0, **more: str) -> dict[str, Any]:
    limits = {"cpu": cpu, **({GPU: str(gpus)} if gpus else {})}
    return {"name": "c", "resources": {"limits": limits}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu", "gpus"),
    [
        pytest.param({"containers": [a_container("1", 1), a_container("500m")]}, 1500, 1, id="sum"),
        pytest.param(
            {"containers": [a_container("1", 1)], "initContainers": [a_container("4", 2)]},
            4000, 2, id="a larger init container",
        ),
        pytest.param(
            {
                "containers": [a_container("1", 1)],
                "initContainers": [a_container("2", restartPolicy="Always")],
            },
            3000, 1, id="a sidecar runs beside",
        ),
        pytest.param(
            {
                "containers": [a_container("1")],
                "initContainers": [a_container("2", restartPolicy="Always"), a_container("4")],
            },
            6000, 0, id="an init container beside a sidecar",
        ),
        pytest.param(
            {"containers": [a_container("1")], "overhead": {"cpu": "250m"}}, 1250, 0, id="overhead"
        ),
    ],
)  # fmt: skip
def test_requests_are_counted_as_kube_scheduler_counts_them(
    spec: dict[str, Any], cpu: int, gpus: int
) -> None:
    requests = manifests.pod(a_pod("x", spec=spec)).wants.requests
    assert (requests["cpu"], requests.get(GPU, 0)) == (cpu, gpus)


@pytest.mark.parametrize(
    ("phase", "over"),
    [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_that_has_ended_holds_nothing(phase: str, over: bool) -> None:
    assert manifests.is_over(a_pod("x", phase=phase)) is over


@pytest.mark.parametrize(
    ("weight", "value"), [(3, 3), ("0.5", Fraction(1, 2)), ("500m", Fraction(1, 2)), (0, 0)]
)
def test_a_weight_is_a_quantity(weight: object, value: Fraction) -> None:
    assert manifests.policy_weight(a_policy("a", weight)) == value
    assert manifests.namespace_weight(a_namespace("llm", str(weight))) == value


def test_without_a_weight_it_is_1() -> None:
    assert manifests.policy_weight({"metadata": {"name": "a"}, "spec": {}}) == 1
    assert manifests.namespace_weight(a_namespace()) == 1


@pytest.mark.parametrize("weight", ["heavy", "-2"])
def test_a_weight_of_nonsense_is_1_and_said(weight: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert manifests.namespace_weight(a_namespace("llm", weight)) == 1
    assert f"metadata.labels[tenantry.dev/weight] of /llm is '{weight}'" in caplog.text
