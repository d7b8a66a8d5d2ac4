"""Texts that people write, and documents that nobody would."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenantry_api import document, enforcement, parse
from tenantry_api.policy import TenantServingPolicy
from tenantry_api.tests.policies import FULL, a_policy


def test_yaml_and_json_texts_give_the_same_policy() -> None:
    body = a_policy(FULL)
    assert parse.text(yaml.safe_dump(body), "p.yaml") == parse.text(json.dumps(body), "p.json")


def test_a_bare_spec_is_refused_with_a_hint() -> None:
    with pytest.raises(parse.Invalid, match="this is a bare spec") as refusal:
        parse.text("model: {name: m}\ntenants: []\n", "bare.yaml")
    assert str(refusal.value).startswith("bare.yaml: 1 mistake\n  spec: is missing")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("", "it holds 0 documents", id="empty"),
        pytest.param("a: 1\n---\nb: 2\n", "it holds 2 documents", id="two documents"),
        pytest.param("- a\n", "a mapping of fields", id="a list"),
        pytest.param("text", "a mapping of fields", id="a text"),
        pytest.param("a: [", "cannot be read: while parsing a flow node", id="broken"),
        pytest.param("a: [", "in line 1, column 5", id="the place"),
        pytest.param("a: 1\na: 2\n", "the key `a` stands here twice", id="a key twice"),
        pytest.param("a: 2026-13-45\n", "cannot be read", id="a date that is none"),
        pytest.param("[" * 3000, "cannot be read", id="too deep"),
    ],
)
def test_a_text_that_holds_no_policy_is_refused_by_its_name(source: str, words: str) -> None:
    with pytest.raises(parse.Invalid, match=re.escape(words)) as refusal:
        parse.text(source, "p.yaml")
    assert str(refusal.value).startswith("p.yaml: ")


def test_a_date_as_a_tenant_name_says_that_quotes_are_missing() -> None:
    source = yaml.safe_dump(a_policy()).replace(
        "spec:\n", "spec:\n  tenants: [{name: 2026-01-01}]\n"
    )
    with pytest.raises(parse.Invalid, match="put it in quotes: YAML reads it as a date"):
        parse.text(source, "p.yaml")


def test_yaml_may_take_a_part_from_elsewhere_and_change_it() -> None:
    source = yaml.safe_dump(a_policy()).replace(
        "spec:\n",
        "spec:\n  tenants: [&gold {name: gold, weight: 3}, {<<: *gold, name: silver}]\n",
    )
    gold, silver = parse.text(source, "p.yaml").spec.tenants
    assert gold.weight == silver.weight == 3
    assert silver.name == "silver"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


def _places(body: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of everything in a document, the document itself left out."""
    if path:
        yield path
    if isinstance(body, dict):
        for key, value in body.items():
            yield from _places(value, (*path, key))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from _places(value, (*path, index))


PLACES = list(_places(a_policy(FULL)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_anywhere_gives_a_policy_or_findings(
    place: tuple[str | int, ...], value: Any
) -> None:
    body = deepcopy(a_policy(FULL))
    target: Any = body
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    read = _read(body)
    if isinstance(read, parse.Invalid):
        assert read.findings
        assert all(finding.path and finding.message for finding in read.findings)
    else:
        assert document.canonical(read)
        assert enforcement.unenforced(read) is not None


def _read(body: dict[str, Any]) -> TenantServingPolicy | parse.Invalid:
    try:
        return parse.policy(body)
    except parse.Invalid as error:
        return error


@pytest.mark.parametrize(
    ("value", "kind"),
    [("2026-99-99", "timestamp"), ("9" * 5000, "int"), ("!!int x", "int"), ("!!float x", "float")],
    ids=["a date", "a long number", "no number", "no decimal"],
)
def test_a_value_that_yaml_takes_for_what_it_is_not_is_shown_with_its_place(
    value: str, kind: str
) -> None:
    with pytest.raises(parse.Invalid) as refusal:
        parse.text(f"spec:\n  weight: {value}\n", "p.yaml")
    said = str(refusal.value)
    assert f"is no {kind}: put it in quotes" in said
    assert "line 2, column 11" in said
    assert len(said) < 300


def test_a_date_is_shown_as_it_was_written() -> None:
    source = "metadata: {name: 2026-01-31}\n"
    with pytest.raises(parse.Invalid, match=r"YAML reads it as a date \(it is 2026-01-31\)"):
        parse.text(source, "p.yaml")
