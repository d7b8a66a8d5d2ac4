"""What has to be done about a child."""

import copy
from typing import Any

import pytest

from tenantry_operator.changes import Answer, answer, holds, keep_replicas, stamped
from tenantry_operator.tests.builders import a_deployment

OTHER_POLICY = {
    "apiVersion": "tenantry.dev/v1alpha1",
    "kind": "TenantServingPolicy",
    "name": "chat",
    "uid": "uid-0",
    "controller": True,
}


def _wanted(**spec: Any) -> dict[str, Any]:
    return stamped(a_deployment(**spec))


def _observed(**meta: Any) -> dict[str, Any]:
    """The wanted Deployment after the API server has added its own fields."""
    found = copy.deepcopy(_wanted())
    found["metadata"].update({"resourceVersion": "7", "uid": "d-1", **meta})
    found["spec"]["revisionHistoryLimit"] = 10
    found["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    found["status"] = {"replicas": 1}
    return found


def test_a_missing_child_is_applied() -> None:
    assert answer(_wanted(), None) is Answer.APPLY


def test_a_child_with_the_servers_additions_is_kept() -> None:
    assert answer(_wanted(), _observed()) is Answer.KEEP


def test_a_child_of_another_manifest_is_applied() -> None:
    assert answer(_wanted(gpu={"count": 2}), _observed()) is Answer.APPLY


def test_a_field_that_the_policy_no_longer_asks_for_is_taken_away() -> None:
    template = {"spec": {"volumes": [{"name": "extra", "emptyDir": {}}]}}
    before = copy.deepcopy(_wanted(engine={"template": template}))
    assert answer(_wanted(), before) is Answer.APPLY


def _drifted(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = _observed()
    where: Any = found
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = value
    return found


_CONTAINER = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(_drifted(("spec", "replicas"), 5), Answer.APPLY, id="scaled by hand"),
        pytest.param(_drifted((*_CONTAINER, "image"), "x:1"), Answer.APPLY, id="image changed"),
        pytest.param(_drifted((*_CONTAINER, "args"), []), Answer.APPLY, id="arguments changed"),
        pytest.param(_drifted(("metadata", "labels"), {}), Answer.APPLY, id="labels taken away"),
        pytest.param(
            _drifted(("metadata", "labels", "team"), "x"), Answer.KEEP, id="a label of others"
        ),
        pytest.param(_drifted(("spec", "minReadySeconds"), 9), Answer.KEEP, id="a field of others"),
    ],
)
def test_drift_is_repaired_in_our_fields_only(observed: dict[str, Any], expected: Answer) -> None:
    assert answer(_wanted(), observed) is expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param([], Answer.CONFLICT, id="nobody's"),
        pytest.param(
            [{"kind": "Thing", "name": "t", "uid": "t-1", "controller": True}],
            Answer.CONFLICT,
            id="another controller's",
        ),
        pytest.param([OTHER_POLICY], Answer.WAIT, id="a deleted policy's of the same name"),
        pytest.param([{**OTHER_POLICY, "name": "other"}], Answer.CONFLICT, id="another policy's"),
    ],
)
def test_a_child_of_somebody_else_is_never_touched(
    owners: list[dict[str, Any]], expected: Answer
) -> None:
    assert answer(_wanted(), _observed(ownerReferences=owners)) is expected


def test_a_child_that_is_being_deleted_is_waited_for() -> None:
    assert answer(_wanted(), _observed(deletionTimestamp="now")) is Answer.WAIT


@pytest.mark.parametrize(
    ("desired", "observed", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": 2}, True, id="more is fine"),
        pytest.param({"a": [], "b": {}}, {}, True, id="the empty is left out"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, False, id="less is not"),
        pytest.param([1, 2], [1, 2, 3], False, id="a plain list is compared whole"),
        pytest.param(
            [{"name": "a", "x": 1}],
            [{"name": "z"}, {"name": "a", "x": 1}],
            True,
            id="a named list by name",
        ),
        pytest.param([{"name": "a"}], [{"name": "b"}], False, id="a missing name"),
        pytest.param("ab", ["a", "b"], False, id="a text is no list"),
    ],
)
def test_what_is_said_must_hold(desired: Any, observed: Any, expected: bool) -> None:
    assert holds(desired, observed) is expected


def _with_managers(*entries: dict[str, Any], replicas: int = 3) -> dict[str, Any]:
    found = _observed(managedFields=list(entries))
    found["spec"]["replicas"] = replicas
    return found


def _manager(name: str) -> dict[str, Any]:
    return {"manager": name, "fieldsV1": {"f:spec": {"f:replicas": {}}}}


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param(None, None, id="a new Deployment starts with the default"),
        pytest.param(_with_managers(_manager("tenantry-operator")), 3, id="ours stays as it is"),
        pytest.param(_with_managers(_manager("hpa")), None, id="the autoscaler's is left alone"),
    ],
)
def test_an_autoscaled_number_is_not_set_back(
    observed: dict[str, Any] | None, expected: int | None
) -> None:
    wanted = _wanted(engine={"autoscaling": {"max": 4}})
    assert keep_replicas(wanted, observed)["spec"].get("replicas") == expected
