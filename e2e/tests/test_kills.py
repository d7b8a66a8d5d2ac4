"""Every part of the chart and an engine are killed while pods wait for GPUs.

What was killed starts again, everybody ends with a fair share, and at no time are there more GPUs
given out than a node has.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from e2e import gpu_pods, release
from e2e.agent.resources import quantity, requested
from e2e.cluster.handle import Cluster
from e2e.cluster.nodes import gpu_nodes
from e2e.gpu_pods import GPU, bound, reasons
from e2e.poll import until
from e2e.tests.test_operator import STAND_IN

pytestmark = pytest.mark.cluster

GPUS = 8
WANTED = 6
SAMPLE_SECONDS = 0.2
SETTLE_SECONDS = 60.0
SYSTEM = release.NAMESPACE
PARTS = {"tenantry-operator": "operator", "tenantry-scheduler": "extender"}

Restarts = dict[tuple[str, str], int]


class Books:
    """GPUs that bound and unfinished pods claim on each node, looked at all the time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples = 0
        self.most = 0
        self.wrong: list[str] = []

    def __enter__(self) -> "Books":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            # Pods first: nodes only ever gain GPUs meanwhile, so a younger list of them is fair.
            held = self._cluster.get("/api/v1/pods")
            nodes = self._cluster.get("/api/v1/nodes")
            if held and nodes:
                self._look(held["items"], nodes["items"])

    def _look(self, held: list[gpu_pods.Body], nodes: list[gpu_pods.Body]) -> None:
        claims: Counter[str] = Counter()
        for pod in held:
            node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
            if node and phase not in ("Succeeded", "Failed"):
                claims[node] += int(requested(pod).get(GPU, 0))
            if phase == "Failed":
                self.wrong.append(f"{pod['metadata']['name']}: {pod['status'].get('reason')}")
        for node in nodes:
            name, have = node["metadata"]["name"], node["status"]["allocatable"].get(GPU, "0")
            if claims[name] > quantity(have):
                self.wrong.append(f"{claims[name]} of {have} GPUs of {name} are given out")
        self.samples += 1
        self.most = max(self.most, sum(claims.values()))


@pytest.fixture
def without_gpus(installed: Cluster) -> Iterator[Cluster]:
    """The session's cluster, whose nodes have no GPUs until the test gives them back."""
    until("nobody else's pod holds a GPU", lambda: not holders(installed), SETTLE_SECONDS)
    installed.set_nodes(gpu_nodes(2, 0))
    until("no GPU is left", lambda: not allocatable(installed))
    yield installed
    installed.set_nodes(gpu_nodes(2, GPUS // 2))
    until("all GPUs are back", lambda: allocatable(installed) == GPUS)


def holders(cluster: Cluster) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in cluster.get("/api/v1/pods")["items"]
        if requested(pod).get(GPU)
    ]


def allocatable(cluster: Cluster) -> int:
    nodes = cluster.get("/api/v1/nodes")["items"]
    return sum(int(node["status"]["allocatable"].get(GPU, "0")) for node in nodes)


def apply(cluster: Cluster, namespace: str) -> None:
    """Policy `a` and then `b`, each of which wants six of the eight GPUs; all their pods wait."""
    container = {
        "name": "engine",
        "command": ["/usr/bin/python3", "-c", STAND_IN],
        "args": [],
        "startupProbe": {"periodSeconds": 1},
        "readinessProbe": {"periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 0}}},
    }
    engine = {
        "image": "example/echo:1",
        "replicas": WANTED,
        "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}},
    }
    for count, name in enumerate("ab", start=1):
        mode = {"mode": "Enforce"}
        body = gpu_pods.a_policy(namespace, name, engine=engine, scheduling=mode)
        gpu_pods.apply(cluster, body)
        wait = partial(tried, cluster, namespace, count * WANTED)
        until(f"all pods up to those of {name} wait", wait, SETTLE_SECONDS)


def tried(cluster: Cluster, namespace: str, pods: int) -> bool:
    """Whether kube-scheduler has found no place for so many pods."""
    found = [reason for name in "ab" for reason in reasons(cluster, namespace, name)]
    return sum(map(bool, found)) == pods


def shares(cluster: Cluster, namespace: str) -> tuple[int, int]:
    return bound(cluster, namespace, "a"), bound(cluster, namespace, "b")


def restarts(cluster: Cluster, namespace: str) -> Restarts:
    """Pod and container -> its restartCount, where it runs now."""
    return {
        (pod["metadata"]["name"], status["name"]): status["restartCount"]
        for pod in gpu_pods.pods_of(cluster, namespace)
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status["state"]
    }


def kill(cluster: Cluster, namespace: str, pod: str, container: str) -> tuple[str, str]:
    """SIGKILL for the program of a container."""
    program = cluster.containers(namespace, pod)[container]
    os.kill(program, signal.SIGKILL)
    return pod, container


def kill_the_chart(cluster: Cluster) -> set[tuple[str, str]]:
    """Kill the operator, both extenders and the kube-scheduler that leads, all at once."""
    leader = release.wait_for_leader(cluster).rpartition("_")[0]
    killed = {kill(cluster, SYSTEM, leader, "kube-scheduler")}
    for pod in gpu_pods.pods_of(cluster, SYSTEM):
        for part, container in PARTS.items():
            name = pod["metadata"]["name"]
            if name.startswith(part):
                killed.add(kill(cluster, SYSTEM, name, container))
    assert len(killed) == 4
    return killed


def wait_for_restart(
    cluster: Cluster, namespace: str, before: Restarts, killed: set[tuple[str, str]]
) -> None:
    def again() -> bool:
        now = restarts(cluster, namespace)
        return all(now.get(each, 0) > before[each] for each in killed)

    until(f"{sorted(killed)} run again", again, SETTLE_SECONDS)


def gpus_in_the_books(cluster: Cluster) -> list[float]:
    """GPUs in use as each extender counts them."""
    pods = gpu_pods.pods_of(cluster, SYSTEM)
    extenders = [p for p in pods if p["metadata"]["name"].startswith("tenantry-scheduler")]
    return [used(cluster, pod["status"]["podIP"]) for pod in extenders]


def used(cluster: Cluster, address: str) -> float:
    command = ["curl", "--silent", "--max-time", "5", f"http://{address}:8080/metrics"]
    lines = cluster.run_inside(command, check=False).stdout.splitlines()
    rows = [line for line in lines if line.startswith("tenantry_slices{") and '"used"' in line]
    return sum(float(row.split()[-1]) for row in rows)


def test_whatever_is_killed_everybody_ends_with_a_fair_share_and_no_gpu_counts_twice(
    without_gpus: Cluster, namespace: str
) -> None:
    cluster = without_gpus
    apply(cluster, namespace)
    with Books(cluster) as books:
        # All pods wait, and the GPUs come while nobody is there to give them out.
        before = restarts(cluster, SYSTEM)
        killed = kill_the_chart(cluster)
        cluster.set_nodes(gpu_nodes(2, GPUS // 2))
        wait_for_restart(cluster, SYSTEM, before, killed)
        until("equal halves", lambda: shares(cluster, namespace) == (4, 4), SETTLE_SECONDS)
        until("the books of both agree", lambda: gpus_in_the_books(cluster) == [GPUS, GPUS])

        # An engine keeps its pod and with it its GPU, although others wait for one.
        until("all engines run", lambda: len(restarts(cluster, namespace)) == GPUS)
        before = restarts(cluster, namespace)
        pod, container = min(before)
        wait_for_restart(cluster, namespace, before, {kill(cluster, namespace, pod, container)})
        assert shares(cluster, namespace) == (4, 4)

        # The turn of the others comes while nobody is there to see it.
        kill_the_chart(cluster)
        cluster.kubectl("delete", "tsp", "b", f"--namespace={namespace}", "--wait=false")
        until("all for a", lambda: shares(cluster, namespace) == (WANTED, 0), SETTLE_SECONDS)
        ready = ("wait", "--for=condition=Ready", "tsp/a", f"--timeout={SETTLE_SECONDS:.0f}s")
        cluster.kubectl(*ready, f"--namespace={namespace}")
    assert books.wrong == []
    assert books.most == GPUS
    assert books.samples > 20
