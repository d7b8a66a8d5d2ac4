"""The real extender and the real kube-scheduler, asked and killed, on a real API server."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import gpu_pods, paths
from e2e.cluster.handle import Cluster
from e2e.cluster.nodes import NodeSpec, gpu_nodes
from e2e.conftest import NewCluster
from e2e.gpu_pods import a_pod, a_policy, bound, reasons
from e2e.poll import until
from e2e.second_scheduler import SecondScheduler

pytestmark = pytest.mark.cluster

NAMESPACE = "default"
OVER_SHARE = "tenantry: policy is over its GPU share and others want the rest"
#: kube-scheduler cannot place it and only kube-scheduler knows: nobody has this label.
LONELY = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"no": "body"}},
                }
            ]
        }
    }
}


def install_policies(cluster: Cluster, **weights: int) -> None:
    """The resource, and a policy of each name with its weight."""
    cluster.kubectl("apply", "-f", str(paths.checkout() / "crds" / "tenantservingpolicies.yaml"))
    cluster.kubectl("wait", "--for=condition=Established", "crd/tenantservingpolicies.tenantry.dev")
    policies = [a_policy(NAMESPACE, name, weight=weight) for name, weight in weights.items()]
    gpu_pods.apply(cluster, *policies)


@pytest.fixture
def start(new_cluster: NewCluster, tmp_path: Path) -> Iterator[Callable[..., SecondScheduler]]:
    """Starts a cluster with policies `a` and `b` of weight 1 and the second scheduler."""
    made: list[SecondScheduler] = []

    def begin(*nodes: NodeSpec) -> SecondScheduler:
        cluster = new_cluster(nodes)
        install_policies(cluster, a=1, b=1)
        made.append(SecondScheduler(cluster, tmp_path).__enter__())
        made[-1].start_scheduler()
        return made[-1]

    yield begin
    for scheduler in made:
        scheduler.__exit__(None, None, None)


def some_pods(policy: str, number: int, **spec: object) -> list[gpu_pods.Body]:
    return [a_pod(NAMESPACE, policy, index, **spec) for index in range(number)]


def sample(scheduler: SecondScheduler, series: str) -> float:
    """The value of one series of the extender's metrics; 0 where it does not exist yet."""
    lines = scheduler.health("metrics").splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(series)), 0.0)


def used(scheduler: SecondScheduler) -> float:
    rows = [f'tenantry_slices{{namespace="default",policy="{p}",state="used"}}' for p in "ab"]
    return sum(sample(scheduler, row) for row in rows)


def test_kube_scheduler_asks_every_verb(start: Callable[..., SecondScheduler]) -> None:
    scheduler = start(*gpu_nodes(2, 2))
    scheduler.start_extender()
    gpu_pods.apply(scheduler.cluster, *some_pods("a", 3))
    until("three pods bound", lambda: bound(scheduler.cluster, NAMESPACE) == 3)
    name = "tenantry_extender_decisions_total"
    assert sample(scheduler, f'{name}{{reason="bound",verb="bind"}}') == 3
    assert sample(scheduler, f'{name}{{reason="accepted",verb="filter"}}') >= 3
    assert sample(scheduler, f'{name}{{reason="scored",verb="prioritize"}}') >= 2
    on_one_node = [p["spec"]["nodeName"] for p in gpu_pods.pods_of(scheduler.cluster, NAMESPACE)]
    assert sorted(map(on_one_node.count, set(on_one_node))) == [1, 2]


def test_a_refused_pod_is_poked_when_an_edited_policy_gives_it_its_turn(
    start: Callable[..., SecondScheduler],
) -> None:
    scheduler = start()
    cluster = scheduler.cluster
    scheduler.start_extender()
    gpu_pods.apply(cluster, *some_pods("a", 4), *some_pods("b", 2, **LONELY))
    cluster.set_nodes([NodeSpec.gpu("gpu-0", 4)])
    until("a has its share", lambda: bound(cluster, NAMESPACE, "a") == 2)
    until("our reason", lambda: all(OVER_SHARE in r for r in reasons(cluster, NAMESPACE, "a")))
    assert bound(cluster, NAMESPACE) == 2
    gpu_pods.apply(cluster, a_policy(NAMESPACE, "b", weight=0))
    until("a borrows what b may no longer claim", lambda: bound(cluster, NAMESPACE, "a") == 4)
    assert sample(scheduler, 'tenantry_extender_pokes_total{outcome="poked"}') >= 1
    poked = [p["metadata"].get("annotations", {}) for p in gpu_pods.pods_of(cluster, NAMESPACE)]
    assert any("tenantry.dev/poked-at" in annotations for annotations in poked)


def test_killed_with_pods_pending_it_comes_back_and_counts_no_gpu_twice(
    start: Callable[..., SecondScheduler],
) -> None:
    scheduler = start(NodeSpec.gpu("gpu-0", 4))
    cluster = scheduler.cluster
    scheduler.start_extender()
    gpu_pods.apply(cluster, a_pod(NAMESPACE, "a", 0))
    until("the first pod bound", lambda: bound(cluster, NAMESPACE) == 1)
    scheduler.kill("extender")
    gpu_pods.apply(cluster, *some_pods("a", 4), *some_pods("b", 4))
    until("an error that names it", lambda: "8899" in str(reasons(cluster, NAMESPACE, "a")))
    assert bound(cluster, NAMESPACE) == 1
    scheduler.start_extender()
    until("all GPUs in use", lambda: bound(cluster, NAMESPACE) == 4)
    assert (bound(cluster, NAMESPACE, "a"), bound(cluster, NAMESPACE, "b")) == (2, 2)
    until("the books agree", lambda: used(scheduler) == 4)


def test_kube_scheduler_killed_with_pods_pending_converges_too(
    start: Callable[..., SecondScheduler],
) -> None:
    scheduler = start(NodeSpec.gpu("gpu-0", 4))
    cluster = scheduler.cluster
    scheduler.start_extender()
    scheduler.kill("scheduler")
    gpu_pods.apply(cluster, *some_pods("a", 4), *some_pods("b", 4))
    scheduler.start_scheduler()
    until("all GPUs in use", lambda: bound(cluster, NAMESPACE) == 4)
    assert (bound(cluster, NAMESPACE, "a"), bound(cluster, NAMESPACE, "b")) == (2, 2)


def test_bind_tells_the_truth_about_what_the_api_server_said(
    start: Callable[..., SecondScheduler],
) -> None:
    scheduler = start(*gpu_nodes(2, 4))
    cluster = scheduler.cluster
    scheduler.kill("scheduler")
    scheduler.start_extender()
    gates = {"schedulingGates": [{"name": "example.com/wait"}]}
    gpu_pods.apply(cluster, a_pod(NAMESPACE, "a", 0), a_pod(NAMESPACE, "a", 1, **gates))
    first, gated = gpu_pods.pods_of(cluster, NAMESPACE)

    def bind(pod: gpu_pods.Body, node: str, uid: str = "") -> str:
        metadata = pod["metadata"]
        message = {
            "PodName": metadata["name"],
            "PodNamespace": NAMESPACE,
            "PodUID": uid or metadata["uid"],
            "Node": node,
        }
        return str(scheduler.ask("bind", message)["Error"])

    until("the pod in the books", lambda: bind(first, "gpu-0") == "")
    assert bound(cluster, NAMESPACE) == 1
    assert bind(first, "gpu-0") == ""
    assert "another node already" in bind(first, "gpu-1")
    assert "not in the books" in bind(first, "gpu-0", uid="00000000-0000-4000-8000-000000000000")
    assert "the API server refused" in bind(gated, "gpu-0")
    assert bound(cluster, NAMESPACE) == 1
    until("no hold is left", lambda: used(scheduler) == 1)


def test_without_the_resource_it_is_not_ready_and_says_why(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    with SecondScheduler(new_cluster(()), tmp_path) as scheduler:
        scheduler.start_extender(ready=False)
        sentence = "tenantservingpolicies are not listed"
        until("an answer", lambda: sentence in scheduler.health("readyz"))
        reply = scheduler.ask("filter", {"Pod": a_pod("x", "a", 0), "NodeNames": []})
        assert reply["Error"].startswith("tenantry: ")
        install_policies(scheduler.cluster, a=1)
        until("ready", lambda: scheduler.health("readyz") == "ok")


def test_a_pod_of_whole_gpus_stays_off_nodes_that_share_theirs_under_the_same_name(
    start: Callable[..., SecondScheduler],
) -> None:
    shared = NodeSpec.mps("gpu-0", 2, 2)
    scheduler = start(NodeSpec("gpu-0", shared.labels, {gpu_pods.GPU: "4"}))
    scheduler.start_extender()
    chooses = {"nodeSelector": {"nvidia.com/gpu.replicas": "2"}}
    gpu_pods.apply(scheduler.cluster, a_pod(NAMESPACE, "a", 0), a_pod(NAMESPACE, "b", 0, **chooses))
    until("the one that chooses a share", lambda: bound(scheduler.cluster, NAMESPACE, "b") == 1)
    sentence = "node shares its GPUs and the pod asks for whole ones"
    until("our reason", lambda: sentence in str(reasons(scheduler.cluster, NAMESPACE, "a")))
    assert bound(scheduler.cluster, NAMESPACE, "a") == 0
    assert json.dumps(reasons(scheduler.cluster, NAMESPACE, "a")).count("gpu-0") == 0
