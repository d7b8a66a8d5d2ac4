"""A changed policy file reaches a scheduler that stands idle."""

import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

POLICY = """
apiVersion: tenantry.dev/v1alpha1
kind: TenantServingPolicy
metadata: {name: chat, namespace: llm}
spec:
  model: {name: m}
  scheduling: {mode: MODE}
  tenants: [{name: gold, weight: WEIGHT}, {name: free, weight: 1}]
"""


def write(path: Path, *, mode: str = "Enforce", weight: int = 3) -> None:
    path.write_text(POLICY.replace("MODE", mode).replace("WEIGHT", str(weight)))


@pytest.mark.parametrize(
    ("change", "weight", "active"),
    [({"weight": 7}, 7.0, 1.0), ({"mode": "Observe"}, 3.0, 0.0)],
    ids=["weights", "mode"],
)
def test_a_changed_policy_is_in_force_without_a_request(
    harness: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: dict[str, Any],
    weight: float,
    active: float,
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    path = tmp_path / "policy.json"
    write(path)
    monkeypatch.setenv("TENANTRY_POLICY", str(path))
    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    made = scheduler.TenantryScheduler(**harness.arguments(harness.Size()))
    engine = harness.Engine(made)
    before = engine.values("tenantry_policy_info")
    assert engine.values("tenantry_tenant_weight")["gold",] == 3.0
    write(path, **change)
    deadline = time.monotonic() + 10
    while engine.values("tenantry_policy_info") == before:
        assert time.monotonic() < deadline, "the new policy did not arrive"
        time.sleep(0.05)
    assert engine.values("tenantry_tenant_weight")["gold",] == weight
    assert list(engine.values("tenantry_engine_active").values()) == [active]
    refill = harness.backlog(["gold", "free"], 24, 64, 16)
    for _ in range(20):
        refill(engine)
        engine.step()
    assert made.conductor.latest.weight_of("gold") == weight
    assert made.conductor.queue.heads().keys() == ({"gold", "free"} if active else {""})
