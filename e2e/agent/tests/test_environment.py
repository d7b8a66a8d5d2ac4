"""Environment and command line from a manifest."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from e2e.agent import environment
from e2e.agent.environment import MissingValueError, Sources

POD: dict[str, Any] = {
    "metadata": {
        "name": "chat-0",
        "namespace": "llm",
        "uid": "u-1",
        "labels": {"tenantry.dev/policy": "chat"},
        "annotations": {"note": "x"},
    },
    "spec": {"nodeName": "gpu-0", "serviceAccountName": "sa", "containers": []},
}
SETTINGS = {("ConfigMap", "settings"): {"data": {"A": "1", "B": "2"}}}
SECRET = {("Secret", "key"): {"data": {"TOKEN": base64.b64encode(b"s3cret").decode()}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="two references"),
        pytest.param("$$(A)", "$(A)", id="an escaped reference is text"),
        pytest.param("$(NO)", "$(NO)", id="an unknown name stays"),
        pytest.param("$A ${A} $", "$A ${A} $", id="other dollars stay"),
        pytest.param("$$$(A)", "$1", id="an escaped dollar before a reference"),
        pytest.param("$(A", "$(A", id="an open parenthesis stays"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


def test_later_definitions_see_and_win_over_earlier_ones() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "P_"}],
        "env": [
            {"name": "P_B", "value": "own"},
            {"name": "BOTH", "value": "$(P_A)$(P_B)$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "EMPTY"},
        ],
    }
    found = environment.build(container, Sources(POD, objects=SETTINGS), {"PATH": "/bin"})
    assert found == {
        "PATH": "/bin",
        "P_A": "1",
        "P_B": "own",
        "BOTH": "1own$(LATER)",
        "LATER": "x",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "chat-0"),
        ({"fieldRef": {"fieldPath": "metadata.labels['tenantry.dev/policy']"}}, "chat"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['none']"}}, ""),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "gpu-0"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.244.0.9"),
        ({"configMapKeyRef": {"name": "settings", "key": "A"}}, "1"),
        ({"secretKeyRef": {"name": "key", "key": "TOKEN"}}, "s3cret"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "1024"),
    ],
)
def test_a_value_comes_from_where_the_manifest_says(source: Any, expected: str) -> None:
    container = {
        "env": [{"name": "X", "valueFrom": source}],
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
    }
    sources = Sources(POD, {"status.podIP": "10.244.0.9"}, SETTINGS | SECRET)
    assert environment.build(container, sources, {}) == {"X": expected}


@pytest.mark.parametrize(
    "source",
    [
        {"configMapKeyRef": {"name": "gone", "key": "A", "optional": True}},
        {"configMapKeyRef": {"name": "settings", "key": "Z", "optional": True}},
    ],
    ids=["object", "key"],
)
def test_an_optional_value_that_is_missing_leaves_no_variable(source: Any) -> None:
    container = {"env": [{"name": "X", "valueFrom": source}]}
    assert environment.build(container, Sources(POD, objects=SETTINGS), {}) == {}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [{"secretRef": {"name": "gone"}}]}, 'secret "gone" not found'),
        (
            {
                "env": [
                    {
                        "name": "X",
                        "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "Z"}},
                    }
                ]
            },
            "couldn't find key Z in ConfigMap settings",
        ),
        (
            {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.other"}}}]},
            "field spec.other is not offered here",
        ),
    ],
)
def test_a_missing_value_is_named(container: Any, message: str) -> None:
    with pytest.raises(MissingValueError, match=message):
        environment.build(container, Sources(POD, objects=SETTINGS), {})


def test_every_object_that_the_environment_needs_is_listed() -> None:
    container = {
        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}],
        "env": [
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Y", "value": "v"},
        ],
    }
    assert environment.references(container) == {
        ("Secret", "a"),
        ("ConfigMap", "b"),
        ("Secret", "c"),
    }


def _service(namespace: str, name: str) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterIP": "10.0.0.7", "ports": ports},
    }


def test_services_of_the_namespace_and_the_api_server_become_variables() -> None:
    services = [_service("llm", "my-chat"), _service("x", "y"), _service("default", "kubernetes")]
    links = environment.service_links(services, "llm", all_of_it=True)
    assert links["MY_CHAT_SERVICE_HOST"] == "10.0.0.7"
    assert links["MY_CHAT_SERVICE_PORT_HTTP"] == "80"
    assert links["MY_CHAT_PORT_80_TCP_ADDR"] == "10.0.0.7"
    assert links["KUBERNETES_SERVICE_PORT"] == "80"
    assert not any(name.startswith("Y_") for name in links)
    fewer = environment.service_links(services, "llm", all_of_it=False)
    assert {name.split("_")[0] for name in fewer} == {"KUBERNETES"}
