"""A document becomes a policy, or a list of everything that is wrong with it."""

import json
from decimal import Decimal
from typing import Any

import pytest

from tenantry_api import names, parse, rules
from tenantry_api.policy import Mode, Sharing, Tier
from tenantry_api.tests.policies import FULL, a_policy
from tenantry_api.tests.refusal import Refusal
from tenantry_api.tests.refusals import BAD_NAMES, REFUSALS
from tenantry_core import tenants


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_a_bad_document_is_refused_with_its_path_and_the_way_out(case: Refusal) -> None:
    with pytest.raises(parse.Invalid) as refusal:
        parse.policy(a_policy(case.spec))
    said = {(finding.path, finding.message) for finding in refusal.value.findings}
    assert [message for path, message in said if path == case.path and case.message in message]


def test_every_rule_has_a_document_that_breaks_it() -> None:
    said = "\n".join(str(_refused(a_policy(case.spec))) for case in REFUSALS)
    unbroken = [
        rule.message for table in rules.RULES.values() for rule in table if rule.message not in said
    ]
    assert unbroken == []


def test_a_policy_with_three_mistakes_reports_all_three_with_paths() -> None:
    spec = {
        "scheduling": {"mode": "enforce"},
        "gpu": {"sharing": "MPS"},
        "tenants": [{"name": "gold", "weight": -1}],
    }
    error = _refused(a_policy(spec))
    assert {finding.path for finding in error.findings} == {
        "spec.scheduling.mode",
        "spec.gpu.share",
        "spec.tenants[0].weight",
    }
    for finding in error.findings:
        assert finding.path in str(error)
    assert str(error).startswith("3 mistakes\n")


def test_a_wrong_name_does_not_hide_the_other_mistakes() -> None:
    error = _refused(a_policy({"weight": -1}, name="Chat"))
    assert [finding.path for finding in error.findings] == ["metadata.name", "spec.weight"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a", "b": 2}, {1, 2}])
def test_a_template_holds_only_what_json_can_say(value: object) -> None:
    (finding,) = _refused(a_policy({"engine": {"template": {"a": value}}})).findings
    assert finding.path == "spec.engine.template"
    assert "must hold texts" in finding.message


@pytest.mark.parametrize(("depth", "findings"), [(49, 0), (50, 1), (500, 1)])
def test_a_template_is_not_nested_without_end(depth: int, findings: int) -> None:
    template: dict[str, Any] = {}
    for _ in range(depth):
        template = {"a": template}
    body = a_policy({"engine": {"template": template}})
    if findings:
        assert "nested deeper" in str(_refused(body))
    else:
        assert parse.policy(body).spec.engine.template == template


@pytest.mark.parametrize("body", [None, [], "policy", 7], ids=str)
def test_what_is_no_mapping_is_no_policy(body: Any) -> None:
    assert "(document): must be a mapping" in str(_refused(body))


def test_a_list_whose_one_item_is_wrong_is_not_said_to_be_empty_too() -> None:
    identity = {"header": "X-Team", "trustedPeers": ["10.0.0.0/33"]}
    (finding,) = _refused(a_policy({"identity": identity})).findings
    assert finding.path == "spec.identity.trustedPeers[0]"


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_policy_needs_a_name_that_its_service_can_have(name: str) -> None:
    (finding,) = _refused(a_policy(name=name)).findings
    assert (finding.path, finding.value, finding.message) == (
        "metadata.name",
        name,
        parse.NAME_MESSAGE,
    )


def test_a_policy_of_another_version_or_kind_is_refused() -> None:
    body = a_policy() | {"apiVersion": "tenantry.dev/v2", "kind": "Tenant"}
    assert [finding.path for finding in _refused(body).findings] == ["apiVersion", "kind"]


def test_a_document_without_a_name_is_refused() -> None:
    body = a_policy()
    del body["metadata"]
    assert "metadata: is required" in str(_refused(body))


def test_the_smallest_policy_has_every_default() -> None:
    policy = parse.policy(a_policy())
    spec = policy.spec
    assert policy.served_name == "chat"
    assert policy.metadata.namespace == "default"
    assert (spec.engine.replicas, spec.gpu.sharing, spec.gpu.count) == (1, Sharing.EXCLUSIVE, 1)
    assert spec.weight == 1
    assert spec.priority_class_name == "tenantry-standard"
    assert (spec.scheduling.mode, spec.scheduling.step_budget_seconds) == (Mode.ENFORCE, None)
    assert spec.scheduling.token_delay_seconds == 1.0
    assert (spec.identity, spec.tenants) == (None, ())


def test_with_autoscaling_nobody_sets_the_number_of_replicas() -> None:
    policy = parse.policy(a_policy({"engine": {"autoscaling": {"max": 4}}}))
    assert policy.spec.engine.replicas is None


def test_every_field_of_a_full_policy_is_read() -> None:
    policy = parse.policy(a_policy(FULL))
    gold = policy.spec.tenants[0]
    assert policy.spec.gpu.split == 2
    assert policy.spec.scheduling.step_budget_seconds == 0.05
    assert (gold.name, gold.tier) == ("gold", Tier.CRITICAL)
    assert gold.weight == Decimal("2.5")
    assert gold.limits is not None
    assert gold.limits.queue_timeout is not None
    assert gold.limits.queue_timeout.total_seconds() == 90
    assert gold.objectives is not None
    assert gold.objectives.e2e is not None
    assert gold.objectives.ttft is None
    assert gold.dedicated is not None
    assert gold.dedicated.gpu is not None
    assert gold.dedicated.gpu.mig_profile == "3g.40gb"


def test_null_is_the_same_as_leaving_a_field_out() -> None:
    with_null = a_policy({"engine": None, "gpu": {"share": None}, "tenants": None})
    assert parse.policy(with_null) == parse.policy(a_policy())


def test_what_the_api_server_adds_does_not_disturb() -> None:
    body = a_policy()
    body["metadata"] |= {"uid": "u", "generation": 3, "managedFields": [], "labels": {"a": "b"}}
    body["status"] = {
        "observedGeneration": 2,
        "newer": True,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    policy = parse.policy(body)
    assert (policy.metadata.uid, policy.metadata.generation) == ("u", 3)
    assert policy.status.observed_generation == 2
    assert policy.status.conditions[0].reason == "Ready"


def test_a_status_that_cannot_be_read_is_no_reason_to_refuse_a_policy() -> None:
    assert parse.policy(a_policy() | {"status": {"conditions": 7}}).status.conditions == ()


def test_parsing_leaves_the_document_as_it_was() -> None:
    body = a_policy(FULL)
    before = json.dumps(body)
    parse.policy(body)
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    "name",
    [
        "tenant-a",
        "TENANT-A",
        "Team_A/Search",
        "Größe-Daten",
        "0123",
        "default",
        "*",
        "a b",
        "x" * 128,
        "顧客",
    ],
)
def test_a_tenant_may_have_any_printable_name(name: str) -> None:
    policy = parse.policy(a_policy({"tenants": [{"name": name}]}))
    assert policy.spec.tenants[0].name == name


def test_names_that_differ_in_case_alone_are_two_tenants() -> None:
    policy = parse.policy(a_policy({"tenants": [{"name": "a"}, {"name": "A"}]}))
    assert len(policy.spec.tenants) == 2


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(3, "3"), ("3", "3"), ("0.5", "0.5"), ("500m", "0.5"), ("2k", "2000"), ("1M", "1000000")],
)
def test_a_weight_may_be_written_as_a_quantity(weight: int | str, expected: str) -> None:
    policy = parse.policy(a_policy({"weight": weight}))
    assert policy.spec.weight == Decimal(expected)


def test_a_tenant_of_weight_zero_is_fine_beside_one_that_has_some() -> None:
    spec = {"tenants": [{"name": "a", "weight": 0}, {"name": "b"}]}
    assert parse.policy(a_policy(spec)).spec.tenants[0].weight == 0


@pytest.mark.parametrize(
    "args",
    [
        ["--max-model-len=8192"],
        ["--portable"],
        ["--hostile=x"],
        ["9"],
        ["--"],
        ["-O3"],
        ["x=--port"],
    ],
)
def test_an_argument_that_only_begins_like_an_owned_one_is_let_through(args: list[str]) -> None:
    assert parse.policy(a_policy({"engine": {"args": args}})).spec.engine.args == tuple(args)


def test_a_share_that_is_no_split_names_its_neighbours() -> None:
    (finding,) = _refused(a_policy({"gpu": {"sharing": "MPS", "share": "0.3"}})).findings
    assert '"0.333" (1/3)' in finding.message
    assert '"0.250" (1/4)' in finding.message


@pytest.mark.parametrize(
    ("share", "split"), [("0.5", 2), ("0.33", 3), ("0.333", 3), ("0.1", 10), ("21m", 48)]
)
def test_a_share_within_the_tolerance_is_a_split(share: str, split: int) -> None:
    policy = parse.policy(a_policy({"gpu": {"sharing": "TimeSlicing", "share": share}}))
    assert policy.spec.gpu.split == split


@pytest.mark.parametrize(
    ("source", "location"),
    [
        pytest.param(None, "m", id="hub by default"),
        pytest.param({"hub": {"tokenSecret": "hf"}}, "m", id="hub"),
        pytest.param({"path": "/srv/m"}, "/srv/m", id="path"),
        pytest.param({"claim": {"name": "c"}}, "/models", id="whole volume"),
        pytest.param({"claim": {"name": "c", "path": "./a/b/"}}, "/models/a/b", id="folder"),
        pytest.param({"image": {"reference": "r", "path": "m"}}, "/models/m", id="image"),
    ],
)
def test_vllm_is_told_the_hub_name_or_the_path(source: Any, location: str) -> None:
    policy = parse.policy(a_policy({"model": {"name": "m", "source": source}}))
    assert policy.spec.model.location == location


def test_a_long_value_is_shown_cut() -> None:
    message = str(_refused(a_policy({"scheduling": {"mode": "x" * 5000}})))
    assert len(message) < 400


def test_the_tenants_with_a_meaning_have_one_name_in_core_and_api() -> None:
    assert names.DEFAULT_TENANT == tenants.DEFAULT
    assert names.OTHER_TENANT == tenants.OTHER


def _refused(body: dict[str, Any]) -> parse.Invalid:
    with pytest.raises(parse.Invalid) as refusal:
        parse.policy(body)
    return refusal.value
