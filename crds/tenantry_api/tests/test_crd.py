"""The CustomResourceDefinition and the reference page are what the types say."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry_api import crd, names, reference, schema
from tenantry_api.policy import Spec

CHECKOUT = Path(__file__).parents[3]
# Beyond this a client-side `kubectl apply` cannot annotate the object.
APPLY_LIMIT = 262_144


@pytest.mark.parametrize("path", [*crd.COPIES, crd.PAGE], ids=str)
def test_every_copy_is_what_the_types_say(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (CHECKOUT / path).read_text(encoding="utf-8")
    wanted = reference.page() if path == crd.PAGE else crd.text()
    assert content == wanted, f"{path}: run `make crds`"
    assert capsys.readouterr().out == ""


def test_the_page_says_what_a_field_means_once() -> None:
    rows = [line.split(" | ") for line in reference.page().splitlines() if line.startswith("| `")]
    meanings = [row[3] for row in rows if row[0].startswith(("| `gpu", "| `tenants[].dedicated"))]
    assert len(meanings) == len(set(meanings)) > 5
    assert ["| `tenants[].dedicated.gpu`", "as `gpu`"] in [row[:2] for row in rows]


def test_check_finds_a_copy_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crd.main([str(tmp_path), "--check"]) == 1
    assert crd.main([str(tmp_path)]) == 0
    assert crd.main([str(tmp_path), "--check"]) == 0
    (tmp_path / crd.FILE).write_text("stale")
    assert crd.main([str(tmp_path), "--check"]) == 1
    assert "run `make crds`" in capsys.readouterr().out


def test_it_is_small_enough_for_a_plain_apply() -> None:
    assert len(crd.text().encode()) < APPLY_LIMIT


def test_users_find_it_by_short_name_and_category() -> None:
    spec = crd.definition()["spec"]
    assert spec["names"]["shortNames"] == ["tsp"]
    assert spec["names"]["categories"] == ["tenantry"]
    assert spec["scope"] == "Namespaced"
    columns = [column["name"] for column in _version()["additionalPrinterColumns"]]
    assert columns[:6] == ["Model", "Tenants", "Share", "Ready", "Reason", "Age"]
    assert "Weights" in columns[6:]


def test_every_printer_column_reads_a_field_of_the_schema() -> None:
    root = _version()["schema"]["openAPIV3Schema"]
    for column in _version()["additionalPrinterColumns"]:
        node = root
        path = column["jsonPath"].partition("[?")[0].strip(".").split(".")
        if path[0] != "metadata":
            for piece in path:
                node = node["properties"][piece]
            assert node["type"] in ("string", "array"), column


def test_the_schema_is_structural() -> None:
    forbidden = {"$ref", "$defs", "anyOf", "allOf", "oneOf", "title", "const", "nullable"}
    for path, node in _nodes(_root(), ""):
        assert not node.keys() & forbidden, path
        typed = "type" in node or node.get("x-kubernetes-int-or-string")
        assert typed, path


def test_every_list_text_and_map_has_a_bound_so_that_rules_stay_cheap() -> None:
    for path, node in _nodes(_root()["properties"]["spec"], "spec"):
        kind = node.get("type")
        if kind == "array":
            assert "maxItems" in node, path
            assert "x-kubernetes-list-type" in node, path
        elif kind == "string" or "x-kubernetes-int-or-string" in node:
            assert "maxLength" in node or "enum" in node, path
        elif kind == "integer":
            assert {"minimum", "maximum"} <= node.keys(), path


def test_every_field_has_a_description_that_ends_like_a_sentence() -> None:
    for part in ("spec", "status"):
        for path, node in _fields(_root()["properties"][part], part):
            assert node.get("description", "").endswith("."), path


def test_tenants_merge_by_name() -> None:
    tenants = schema.structural(Spec)["properties"]["tenants"]
    assert tenants["x-kubernetes-list-type"] == "map"
    assert tenants["x-kubernetes-list-map-keys"] == ["name"]
    assert tenants["maxItems"] == 64


def test_a_default_object_is_whole() -> None:
    properties = schema.structural(Spec)["properties"]
    assert properties["gpu"]["default"] == {"sharing": "Exclusive", "count": 1}
    assert properties["scheduling"]["default"]["stepBudget"] == "auto"
    assert "default" not in properties["engine"]["properties"]["replicas"]


def test_every_rule_has_a_message_for_people() -> None:
    for path, node in _nodes(_root(), ""):
        for rule in node.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert "self" not in rule["message"].split(), path
            assert "\n" not in rule["message"], path


def test_the_manifest_reads_back_as_the_definition() -> None:
    assert yaml.safe_load(crd.text()) == crd.definition()
    assert crd.definition()["metadata"]["name"] == f"{names.PLURAL}.{names.GROUP}"


def _version() -> Mapping[str, Any]:
    (version,) = crd.definition()["spec"]["versions"]
    result: Mapping[str, Any] = version
    return result


def _root() -> Mapping[str, Any]:
    root: Mapping[str, Any] = _version()["schema"]["openAPIV3Schema"]
    return root


def _fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from _fields(child.get("items", child), f"{path}.{name}")


def _nodes(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in node:
            yield from _nodes(node[inner], f"{path}[]")
