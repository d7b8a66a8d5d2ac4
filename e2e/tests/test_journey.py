"""A policy's whole way on real parts: applied, Ready, tokens by weight, changed live, deleted.

The two policies of this module are the first example as it stands and the same in `mode: Off`.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from e2e import paths
from e2e.cluster.handle import Cluster
from e2e.load import Load, Report, command

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NAMESPACE = "journey"
EXAMPLE = "two-tenants.yaml"
WARM_UP = 8.0
"""Seconds at the start of a load that no ratio counts."""


@dataclass(frozen=True)
class Pool:
    """One policy's single engine."""

    cluster: Cluster
    policy: str

    def get(self, kind: str, name: str) -> Any:
        return json.loads(self.cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json"))

    def pod(self) -> Any:
        listed = json.loads(
            self.cluster.kubectl(
                "get",
                "pods",
                "-n",
                NAMESPACE,
                "-l",
                f"tenantry.dev/policy={self.policy}",
                "-o",
                "json",
            )
        )
        (pod,) = listed["items"]
        return pod

    def url(self, port: int = 8000) -> str:
        return f"http://{self.get('service', self.policy)['spec']['clusterIP']}:{port}"

    def metrics(self) -> str:
        address = f"http://{self.pod()['status']['podIP']}:8001/metrics"
        return self.cluster.run_inside(["curl", "-sS", "-m", "10", address]).stdout

    def engine(self) -> tuple[str, int, tuple[int, ...]]:
        """What a restart would change: the pod's UID, its restarts, its processes."""
        pod = self.pod()
        (status,) = pod["status"]["containerStatuses"]
        processes = self.cluster.processes(NAMESPACE, pod["metadata"]["name"])
        return pod["metadata"]["uid"], status["restartCount"], tuple(sorted(processes))


@pytest.fixture(scope="module")
def pools(installed: Cluster) -> Iterator[Mapping[str, Pool]]:
    """The example's policy, and the same in mode Off, both Ready."""
    installed.kubectl("create", "namespace", NAMESPACE)
    example = (paths.checkout() / "docs/examples" / EXAMPLE).read_text()
    installed.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=example)
    off = yaml.safe_load(example)
    off["metadata"]["name"] = "chat-off"
    off["spec"].setdefault("scheduling", {})["mode"] = "Off"
    installed.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(off))
    for policy in ("chat", "chat-off"):
        installed.kubectl(
            "wait", "--for=condition=Ready", f"tsp/{policy}", "-n", NAMESPACE, "--timeout=180s"
        )
    yield {policy: Pool(installed, policy) for policy in ("chat", "chat-off")}
    installed.kubectl("delete", "tsp", "--all", "-n", NAMESPACE)
    installed.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def saturate(installed: Cluster) -> Iterator[Callable[[Pool], Load]]:
    """Both tenants always waiting, at one pool; ends with the test."""
    running: list[Load] = []

    def start(pool: Pool) -> Load:
        argv = command(pool.url(), "gold,free", "--seconds=400")
        process = installed.inside(argv, cwd=paths.checkout(), stdout=subprocess.PIPE, text=True)
        running.append(Load(process))
        return running[-1]

    yield start
    for load in running:
        load.stop()


def ratio(first: Report, last: Report) -> float:
    """Gold's tokens over free's between two reports."""
    given = {name: last.tokens[name] - first.tokens[name] for name in ("gold", "free")}
    return given["gold"] / given["free"]


def set_weights(pool: Pool, gold: int, free: int) -> None:
    patch = [
        {"op": "replace", "path": f"/spec/tenants/{i}/weight", "value": weight}
        for i, weight in enumerate((gold, free))
    ]
    names = [tenant["name"] for tenant in pool.get("tsp", pool.policy)["spec"]["tenants"]]
    assert names == ["gold", "free"]
    pool.cluster.kubectl(
        "patch", "tsp", pool.policy, "-n", NAMESPACE, "--type=json", "-p", json.dumps(patch)
    )


def hash_in_force(pool: Pool) -> str:
    (line,) = [
        row for row in pool.metrics().splitlines() if row.startswith("tenantry_policy_info{")
    ]
    return line.split('hash="', 1)[1].split('"', 1)[0]


def eventually(question: Callable[[], Any], seconds: float, what: str) -> None:
    """Poll until `question` says yes."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)


def test_get_shows_model_tenants_share_and_readiness(pools: Mapping[str, Pool]) -> None:
    header, row = pools["chat"].cluster.kubectl("get", "tsp", "chat", "-n", NAMESPACE).splitlines()
    columns = ["NAME", "MODEL", "TENANTS", "SHARE", "READY", "REASON", "AGE"]
    assert header.split() == columns
    model = "meta-llama/Llama-3.1-8B-Instruct"
    assert re.split(" {2,}", row)[:5] == ["chat", model, "gold, free", "1", "True"]


def test_explain_describes_every_field_of_a_tenant(pools: Mapping[str, Pool]) -> None:
    text = pools["chat"].cluster.kubectl("explain", "tsp.spec.tenants")
    for field in ("name", "weight", "tier", "kvCache", "objectives", "limits", "dedicated"):
        assert f"\n  {field}\t" in text
    assert "<no description>" not in text


def test_the_header_decides_who_is_charged(pools: Mapping[str, Pool]) -> None:
    pool = pools["chat"]
    body = json.dumps({"model": "chat", "prompt": [300, 301], "max_tokens": 5, "ignore_eos": True})
    head = ["curl", "-sS", "-m", "60", "-H", "Content-Type: application/json", "-d", body]
    answer = pool.cluster.run_inside(
        [*head, "-H", "X-Tenant-ID: gold", f"{pool.url()}/v1/completions"]
    )
    assert json.loads(answer.stdout)["usage"]["completion_tokens"] == 5
    wanted = 'tenantry_tokens_total{kind="output",policy="chat",tenant="gold"} 5.0'
    eventually(lambda: wanted in pool.metrics(), 10, wanted)


def test_stock_scheduling_gives_equal_load_equal_tokens(
    pools: Mapping[str, Pool], saturate: Callable[[Pool], Load]
) -> None:
    load = saturate(pools["chat-off"])
    first, last = load.until(WARM_UP), load.until(WARM_UP + 45)
    assert ratio(first, last) == pytest.approx(1.0, rel=0.10)


def test_weights_divide_tokens_and_change_without_a_restart(
    pools: Mapping[str, Pool], saturate: Callable[[Pool], Load]
) -> None:
    pool = pools["chat"]
    before, old = pool.engine(), hash_in_force(pool)
    load = saturate(pool)
    first, last = load.until(WARM_UP), load.until(WARM_UP + 60)
    assert ratio(first, last) == pytest.approx(3.0, rel=0.10)

    set_weights(pool, gold=1, free=3)
    eventually(lambda: hash_in_force(pool) != old, 30, "the engine has the new policy")
    assert pool.get("tsp", "chat")["status"]["policyHash"] == hash_in_force(pool)
    start = load.next()
    end = load.until(start.t + 30)
    assert 1 / ratio(start, end) == pytest.approx(3.0, rel=0.15)
    assert pool.engine() == before


def test_deleting_a_policy_leaves_nothing_of_it(pools: Mapping[str, Pool]) -> None:
    pool = pools["chat"]
    processes = pool.engine()[2]
    assert processes
    pool.cluster.kubectl("delete", "tsp", "chat", "-n", NAMESPACE)
    selector = f"tenantry.dev/policy={pool.policy}"

    def left() -> str:
        kinds = "deployments,replicasets,services,configmaps,pods"
        return pool.cluster.kubectl("get", kinds, "-n", NAMESPACE, "-l", selector, "-o", "name")

    eventually(lambda: not left(), 60, f"no child is left: {left()}")
