"""A partial pod template laid over a whole one."""

from typing import Any

import pytest

from tenantry_operator.merge import merge

NAMED = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="a new key is added"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="a scalar is replaced"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes a key"),
        pytest.param(
            {"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}, id="mappings are merged"
        ),
        pytest.param(
            {"env": NAMED},
            {"env": [{"name": "b", "value": "3"}, {"name": "c", "value": "4"}]},
            {"env": [NAMED[0], {"name": "b", "value": "3"}, {"name": "c", "value": "4"}]},
            id="a list with names is merged by name, in order",
        ),
        pytest.param(
            {"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}, id="another list is replaced"
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": []},
            {"tolerations": []},
            id="a list of mappings without a merge key is replaced",
        ),
        pytest.param(
            {"env": NAMED},
            {"env": [{"name": "a", "$patch": "delete"}]},
            {"env": [NAMED[1]]},
            id="an element is deleted by name",
        ),
        pytest.param(
            {"env": NAMED},
            {"env": [{"$patch": "replace"}, {"name": "c"}]},
            {"env": [{"name": "c"}]},
            id="a list is replaced on request",
        ),
        pytest.param(
            {"m": {"a": 1}},
            {"m": {"$patch": "replace", "b": 2}},
            {"m": {"b": 2}},
            id="a mapping is replaced on request",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1}]},
            {"ports": [{"name": "x"}]},
            {"ports": [{"name": "x"}]},
            id="an element without its key is left to the API server",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": ["a"]},
            {"containers": ["a"]},
            id="a list of something else is left to the API server",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "x", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "y", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "y", "mountPath": "/a"}]},
            id="mounts are merged by path",
        ),
    ],
)
def test_a_patch_is_laid_over(
    base: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]
) -> None:
    before = repr(base)
    assert merge(base, patch) == merged
    assert repr(base) == before
