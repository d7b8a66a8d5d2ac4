"""The chart as helm renders it: what runs, with which rights, and what its values refuse."""

import functools
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import build, paths, tools
from e2e.cluster.handle import Cluster
from tenantry_api import crd, names

pytestmark = pytest.mark.cluster

CHART = paths.checkout() / "charts" / "tenantry"
Manifest = dict[str, Any]

RIGHTS = {
    ("ClusterRole", "tenantry-operator"): {
        "configmaps": "get list watch create patch",
        "deployments": "get list watch create patch",
        "events": "create",
        "namespaces": "get",
        "pods": "list watch patch",
        "services": "get list watch create patch",
        "tenantservingpolicies": "get list watch",
        "tenantservingpolicies/finalizers": "update",
        "tenantservingpolicies/status": "patch",
    },
    ("Role", "tenantry-operator"): {"leases": "create", "leases/tenantry-operator": "get update"},
    ("ClusterRole", "tenantry-scheduler"): {
        "namespaces": "list watch",
        "nodes": "list watch",
        "pods": "list watch patch",
        "tenantservingpolicies": "list watch",
    },
    ("Role", "tenantry-scheduler"): {
        "leases": "create",
        "leases/tenantry-scheduler": "get update",
    },
}
"""Every right that the chart gives, by role and resource (with the object's name where given)."""


def helm(*args: str) -> "subprocess.CompletedProcess[str]":
    command = [str(tools.helm()), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def render(*flags: str) -> tuple[Manifest, ...]:
    done = helm("template", "tenantry", str(CHART), "--namespace=tenantry-system", *flags)
    assert done.returncode == 0, done.stderr
    return tuple(item for item in yaml.safe_load_all(done.stdout) if item)


def of_kind(kind: str, *flags: str) -> dict[str, Manifest]:
    return {item["metadata"]["name"]: item for item in render(*flags) if item["kind"] == kind}


def pods(*flags: str) -> Iterator[Manifest]:
    return (item["spec"]["template"]["spec"] for item in of_kind("Deployment", *flags).values())


def containers(*flags: str) -> dict[str, Manifest]:
    return {item["name"]: item for pod in pods(*flags) for item in pod["containers"]}


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_it_brings_the_resource_as_the_types_say() -> None:
    rendered = helm("show", "crds", str(CHART)).stdout
    made = (paths.checkout() / crd.COPIES[0]).read_text(encoding="utf-8")
    assert yaml.safe_load(rendered) == yaml.safe_load(made)


def test_two_deployments_run_what_the_parts_are() -> None:
    assert set(of_kind("Deployment")) == {"tenantry-operator", "tenantry-scheduler"}
    commands = {name: (item["image"], item["command"]) for name, item in containers().items()}
    assert commands == {
        "operator": ("ghcr.io/tenantry/operator:0.1.0", ["tenantry-operator"]),
        "extender": (
            "ghcr.io/tenantry/extender:0.1.0",
            ["tenantry-extender", "--verbs-port=8899", "--port=8080"],
        ),
        "kube-scheduler": (
            "registry.k8s.io/kube-scheduler:v1.36.3",
            ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"],
        ),
    }


def test_every_pod_is_a_plain_user_and_every_root_read_only() -> None:
    for pod in pods():
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == 65532
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers().values():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_every_container_is_probed_and_bounded() -> None:
    for container in containers().values():
        assert {"livenessProbe", "readinessProbe"} <= container.keys()
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_the_verbs_are_no_port_of_the_pod() -> None:
    ports = {name: [p["containerPort"] for p in c["ports"]] for name, c in containers().items()}
    assert ports == {"operator": [8080], "kube-scheduler": [10259], "extender": [8080]}


def test_the_three_priority_classes_are_in_order_and_batch_displaces_nobody() -> None:
    found = of_kind("PriorityClass")
    assert tuple(found) == names.PRIORITY_CLASSES
    values = [item["value"] for item in found.values()]
    assert values == sorted(values, reverse=True)
    assert found["tenantry-batch"]["preemptionPolicy"] == "Never"
    assert of_kind("PriorityClass", "--set=priorityClasses.create=false") == {}


def test_every_object_carries_the_usual_labels() -> None:
    for item in render():
        labels = item["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "tenantry"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == "0.1.0"


def rights(role: Manifest) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", [""]):
                key = "/".join(filter(None, (resource, name)))
                found.setdefault(key, []).extend(rule["verbs"])
    return {key: " ".join(verbs) for key, verbs in found.items()}


def test_the_rights_are_these_and_no_others() -> None:
    roles = [item for item in render() if item["kind"] in ("ClusterRole", "Role")]
    assert {(r["kind"], r["metadata"]["name"]): rights(r) for r in roles} == RIGHTS


def test_the_scheduler_is_bound_to_what_a_second_scheduler_needs() -> None:
    bound = {
        (item["roleRef"]["name"], item["metadata"].get("namespace", "*"))
        for item in render()
        if item["kind"].endswith("Binding") and item["subjects"][0]["name"] == "tenantry-scheduler"
    }
    assert bound == {
        ("tenantry-scheduler", "*"),
        ("tenantry-scheduler", "tenantry-system"),
        ("system:kube-scheduler", "*"),
        ("system:volume-scheduler", "*"),
        ("extension-apiserver-authentication-reader", "kube-system"),
    }


@pytest.mark.parametrize(
    ("flags", "budgets"),
    [
        pytest.param((), {"tenantry-scheduler"}, id="two schedulers"),
        pytest.param(("--set=scheduler.replicas=1",), set(), id="one scheduler"),
    ],
)
def test_a_disruption_budget_needs_a_second_pod(flags: tuple[str, ...], budgets: set[str]) -> None:
    assert set(of_kind("PodDisruptionBudget", *flags)) == budgets


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        pytest.param("--set=foo=1", "foo", id="an unknown value"),
        pytest.param("--set=operator.replica=2", "replica", id="a misspelt value"),
        pytest.param("--set=operator.replicas=-1", "/operator/replicas", id="a negative number"),
        pytest.param("--set=operator.replicas=two", "/operator/replicas", id="no number"),
        pytest.param("--set=operator.image.pullPolicy=Maybe", "pullPolicy", id="an unknown policy"),
        pytest.param("--set=scheduler.extender.timeout=5m", "timeout", id="a time beyond a minute"),
        pytest.param("--set=operator.logLevel=loud", "logLevel", id="an unknown level"),
    ],
)
def test_a_bad_value_is_refused_by_name(flag: str, path: str) -> None:
    done = helm("template", "tenantry", str(CHART), flag)
    assert done.returncode != 0
    assert path in done.stderr


def _undescribed(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        if "$ref" in value:
            continue
        if "description" not in value:
            yield f"{path}.{name}"
        if value.get("type") == "object" and value.get("additionalProperties", True) is True:
            yield from () if name == "global" else (f"{path}.{name} is open",)
        yield from _undescribed(value, f"{path}.{name}")


def test_every_value_is_in_the_schema_with_a_description() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["additionalProperties"] is False
    assert list(_undescribed(schema)) == []
    for name, part in schema["definitions"].items():
        assert part["description"], name
        assert list(_undescribed(part, name)) == []


def test_an_image_may_be_named_by_digest() -> None:
    found = containers("--set=operator.image.tag=sha256:abc")["operator"]["image"]
    assert found == "ghcr.io/tenantry/operator@sha256:abc"


def test_the_real_scheduler_takes_the_configuration(cluster: Cluster, tmp_path: Path) -> None:
    text = of_kind("ConfigMap")["tenantry-scheduler"]["data"]["scheduler.yaml"]
    given = yaml.safe_load(text)
    given["clientConnection"] = {"kubeconfig": str(cluster.kubeconfig)}
    config, written = tmp_path / "scheduler.yaml", tmp_path / "written.yaml"
    config.write_text(yaml.safe_dump(given), encoding="utf-8")
    binary = build.control_plane() / "kube-scheduler"
    done = subprocess.run(
        [binary, f"--config={config}", f"--write-config-to={written}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (extender,) = yaml.safe_load(written.read_text(encoding="utf-8"))["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:8899/tenantry"
    assert extender["nodeCacheCapable"] is True
    assert not extender.get("ignorable")
    assert "managedResources" not in extender
    assert "preemptVerb" not in extender
