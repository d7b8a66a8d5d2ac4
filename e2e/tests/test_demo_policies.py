"""The demo runs the examples, changed by what its overlay says and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from e2e import paths
from e2e.demo import engines, policies
from e2e.demo.arms import STOCK, TENANTRY
from e2e.demo.kube import ready
from tenantry_api.policy import Mode


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({}, {"a": {"b": None}}, {"a": {}}),
    ],
    ids=[
        "adds",
        "merges",
        "replaces lists",
        "removes",
        "replaces scalars",
        "removes what is not there",
    ],
)
def test_an_overlay_is_a_json_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert policies.patched(target, patch) == result


@pytest.mark.parametrize("server", [TENANTRY, STOCK])
def test_the_overlaid_example_is_a_valid_policy(server: str) -> None:
    policy = policies.checked(policies.load(server))
    assert "--max-model-len=2048" in policy.spec.engine.args
    assert [tenant.name for tenant in policy.spec.tenants] == ["quiet", "noisy"]


def test_the_two_policies_differ_in_name_and_mode_only() -> None:
    ours, stock = (policies.load(server) for server in (TENANTRY, STOCK))
    assert policies.checked(ours).spec.scheduling.mode is Mode.ENFORCE
    assert policies.checked(stock).spec.scheduling.mode is Mode.OFF
    for body in (ours, stock):
        body["metadata"].pop("name")
        body["spec"]["scheduling"].pop("mode", None)
    assert ours == stock


def test_both_policies_are_written_as_they_will_be_applied(tmp_path: Path) -> None:
    files = policies.write(tmp_path)
    assert {name: policies.read(file) for name, file in files.items()} == {
        name: policies.load(name) for name in (TENANTRY, STOCK)
    }


def test_the_engines_differ_in_how_they_are_started_and_in_nothing_else(tmp_path: Path) -> None:
    files = policies.write(tmp_path)
    (ours, ours_env), (stock, stock_env) = (
        engines.command(server, files[server], 18000) for server in (TENANTRY, STOCK)
    )
    programs = str(paths.venv() / "bin")
    assert stock[:2] == [f"{programs}/vllm", "serve"]
    assert ours[:4] == [f"{programs}/tenantry", "serve", f"--policy={files[TENANTRY]}", "--"]
    assert ours[4:] == stock[2:]
    assert ours_env == stock_env
    assert stock[2] == str(paths.cache() / "models" / "small")
    assert "--dtype=float32" in stock


def condition(status: str, generation: int = 2) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "R",
        "message": "m",
        "observedGeneration": generation,
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"conditions": [condition("True")]}, True),
        ({"conditions": [condition("False")]}, False),
        ({"conditions": [condition("True", generation=1)]}, False),
        ({"conditions": [{**condition("True"), "type": "Accepted"}]}, False),
    ],
    ids=["no status", "ready", "not ready", "ready for an older generation", "another condition"],
)
def test_a_policy_is_ready_when_it_says_so_of_its_present_generation(
    status: dict[str, Any], expected: bool
) -> None:
    assert ready({"metadata": {"generation": 2}, "status": status})[0] is expected
