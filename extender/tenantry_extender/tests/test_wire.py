"""Messages with the shapes that kube-scheduler was seen to send and to accept."""

import json
from typing import Any

import pytest

from tenantry_extender import wire
from tenantry_extender.tests.builders import a_node, a_pod, a_question
from tenantry_extender.wire import Args, BindingArgs, FilterResult, Malformed


def read(message: object) -> Args:
    return wire.parse(Args, json.dumps(message).encode())


def test_a_question_with_node_names_carries_nodes_as_null() -> None:
    args = read(a_question(a_pod("chat-0", "chat"), "gpu-1", "gpu-0"))
    assert args.names == ["gpu-1", "gpu-0"]
    assert args.pod["metadata"]["uid"] == "uid-chat-0"


def test_a_question_with_whole_nodes_carries_names_as_null() -> None:
    nodes = {"metadata": {}, "items": [a_node("gpu-0"), a_node("gpu-1")]}
    args = read({"Pod": a_pod("chat-0"), "Nodes": nodes, "NodeNames": None})
    assert args.names == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        pytest.param({"Nodes": None, "NodeNames": []}, [], id="no names"),
        pytest.param({"Nodes": {"items": None}, "NodeNames": None}, [], id="items are null"),
        pytest.param({"Nodes": {"metadata": {}}, "NodeNames": None}, [], id="items are missing"),
        pytest.param({"Nodes": {"items": []}, "NodeNames": ["a"]}, ["a"], id="both"),
        pytest.param({"NodeNames": ["a"], "Later": 1}, ["a"], id="a field of a later version"),
    ],
)
def test_nulls_and_missing_fields_are_read(message: dict[str, Any], names: list[str]) -> None:
    assert read({"Pod": a_pod("x"), **message}).names == names


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "Invalid JSON", id="empty"),
        pytest.param(b"{", "Invalid JSON", id="cut off"),
        pytest.param(b"[]", "the message: Input should be an object", id="a list"),
        pytest.param(b'{"Nodes": null, "NodeNames": []}', "Pod: Field required", id="no pod"),
        pytest.param(b'{"Pod": {}, "NodeNames": "gpu-0"}', "NodeNames: ", id="names are no list"),
        pytest.param(
            json.dumps({"Pod": a_pod("x"), "Nodes": None, "NodeNames": None}).encode(),
            "one of Nodes and NodeNames",
            id="no nodes at all",
        ),
        pytest.param(
            b'{"Pod": {"metadata": {"name": "x"}}, "NodeNames": []}', "needs uid", id="no uid"
        ),
        pytest.param(
            json.dumps({"Pod": a_pod("x"), "Nodes": {"items": [{}]}}).encode(),
            "no metadata.name",
            id="a node without a name",
        ),
    ],
)
def test_what_is_no_question_is_refused_by_the_name_of_its_field(body: bytes, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        wire.parse(Args, body)


def test_a_binding_is_read_and_every_part_of_it_is_needed() -> None:
    binding = {"PodName": "chat-0", "PodNamespace": "llm", "PodUID": "1", "Node": "gpu-0"}
    args = wire.parse(BindingArgs, json.dumps(binding).encode())
    assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == (
        "chat-0", "llm", "1", "gpu-0",
    )  # fmt: skip
    for field in binding:
        with pytest.raises(Malformed, match=field):
            wire.parse(BindingArgs, json.dumps({**binding, field: ""}).encode())


def test_the_answer_comes_in_the_form_of_the_question() -> None:
    by_name = read(a_question(a_pod("x"), "a", "b"))
    assert wire.accepted(by_name, ["b"]) == {"NodeNames": ["b"]}
    whole = read({"Pod": a_pod("x"), "Nodes": {"items": [a_node("a")]}, "NodeNames": None})
    nodes = {"metadata": {}, "items": [{"metadata": {"name": "a"}}]}
    assert wire.accepted(whole, ["a"]) == {"Nodes": nodes}


def test_answers_have_the_names_of_the_go_fields() -> None:
    answer = FilterResult.model_validate({"NodeNames": ["a"], "FailedNodes": {"b": "full"}})
    assert json.loads(answer.model_dump_json(by_alias=True)) == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
