"""Four GPUs, two policies of equal weight that ask for four and for two: who gets what.

The pods of `a` are created first, and all of them wait before there is a node. Once with the two
processes alone, where they can be replaced, and once with the chart and whole policies.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e import gpu_pods, release
from e2e.cluster.handle import Cluster
from e2e.cluster.nodes import NodeSpec
from e2e.conftest import NewCluster
from e2e.gpu_pods import GPU, SHARED, a_pod, a_policy, bound, reasons
from e2e.poll import until
from e2e.second_scheduler import SecondScheduler
from e2e.tests.test_extender_wire import OVER_SHARE, install_policies

pytestmark = pytest.mark.cluster

NAMESPACE = "default"
SYSTEM = NodeSpec("system")
BACK_OFF = timedelta(seconds=1)
"""What `SecondScheduler` has kube-scheduler wait before it tries a pod again."""
ENDS_AT_ONCE = {
    "spec": {
        "containers": [{"name": "engine", "lifecycle": {"preStop": {"sleep": {"seconds": 0}}}}],
        "terminationGracePeriodSeconds": 1,
    }
}
"""An engine that nobody talks to has nothing to drain."""


@dataclass(frozen=True)
class Kind:
    """Four slices of one kind, and how pods and policies ask for one of them."""

    node: NodeSpec
    limits: dict[str, str]
    gpu: dict[str, Any]


WHOLE = Kind(NodeSpec.gpu("gpu-0", 4), {GPU: "1"}, {"count": 1})
HALF = Kind(NodeSpec.mps("gpu-0", 2, 2), {SHARED: "1"}, {"sharing": "MPS", "share": "0.5"})
KINDS = pytest.mark.parametrize("kind", [WHOLE, HALF], ids=["whole GPUs", "halves by MPS"])


def some_pods(policy: str, number: int, kind: Kind) -> list[gpu_pods.Body]:
    return [a_pod(NAMESPACE, policy, index, limits=kind.limits) for index in range(number)]


def shares(cluster: Cluster) -> tuple[int, int]:
    """How many pods of `a` and of `b` have a node."""
    return bound(cluster, NAMESPACE, "a"), bound(cluster, NAMESPACE, "b")


def all_wait(cluster: Cluster, a: int, b: int) -> bool:
    """Whether there are so many pods, all tried by kube-scheduler and none placed."""
    tried = [all(reasons(cluster, NAMESPACE, policy)) for policy in "ab"]
    counts = [len(reasons(cluster, NAMESPACE, policy)) for policy in "ab"]
    return all(tried) and counts == [a, b]


def says_why(cluster: Cluster) -> bool:
    """Whether the two pods of `a` that wait name the share as the reason."""
    found = reasons(cluster, NAMESPACE, "a")
    return len(found) == 2 and all(OVER_SHARE in reason for reason in found)


def rested(cluster: Cluster) -> bool:
    """Whether every pod was tried so long ago that kube-scheduler would try it at once: then it
    goes by age. Times of conditions are in whole seconds."""
    tried = [
        datetime.fromisoformat(condition["lastTransitionTime"])
        for pod in gpu_pods.pods_of(cluster, NAMESPACE)
        for condition in pod["status"]["conditions"]
    ]
    return datetime.now(UTC) - max(tried) > BACK_OFF + timedelta(seconds=1)


@pytest.fixture
def begin(new_cluster: NewCluster, tmp_path: Path) -> Iterator[Callable[..., SecondScheduler]]:
    """Starts a cluster without nodes, and kube-scheduler; the test adds an extender."""
    made: list[SecondScheduler] = []

    def start() -> SecondScheduler:
        cluster = new_cluster(())
        install_policies(cluster, a=1, b=1)
        made.append(SecondScheduler(cluster, tmp_path).__enter__())
        made[-1].start_scheduler()
        return made[-1]

    yield start
    for scheduler in made:
        scheduler.__exit__(None, None, None)


def fill(scheduler: SecondScheduler, kind: Kind) -> None:
    """All pods, then the node."""
    cluster = scheduler.cluster
    gpu_pods.apply(cluster, *some_pods("a", 4, kind))
    until("the pods of a wait", lambda: all_wait(cluster, 4, 0))
    gpu_pods.apply(cluster, *some_pods("b", 2, kind))
    until("all pods wait", lambda: all_wait(cluster, 4, 2))
    until("no pod backs off any more", lambda: rested(cluster))
    cluster.set_nodes([kind.node])


@KINDS
def test_each_policy_gets_its_share_and_then_what_the_other_leaves(
    begin: Callable[..., SecondScheduler], kind: Kind
) -> None:
    scheduler = begin()
    scheduler.start_extender()
    fill(scheduler, kind)
    cluster = scheduler.cluster
    until("two pods each", lambda: shares(cluster) == (2, 2))
    until("our reason in the others' conditions", lambda: says_why(cluster))
    gone = f"--selector={gpu_pods.POLICY_LABEL}=b"
    cluster.kubectl("delete", "pods", f"--namespace={NAMESPACE}", gone, "--wait=false")
    assert until("everything for a", lambda: shares(cluster) == (4, 0), 60)


@KINDS
def test_with_a_pass_through_in_its_place_first_come_takes_more_than_its_share(
    begin: Callable[..., SecondScheduler], kind: Kind
) -> None:
    scheduler = begin()
    scheduler.start_passthrough()
    fill(scheduler, kind)
    until("all slices in use", lambda: sum(shares(scheduler.cluster)) == 4)
    a, b = shares(scheduler.cluster)
    assert a > 2 > b


def apply_policies(cluster: Cluster, kind: Kind) -> None:
    """Policy `a` with four replicas, then `b` with two; all their pods wait."""
    for name, replicas in (("a", 4), ("b", 2)):
        engine = {"image": gpu_pods.IDLE, "replicas": replicas, "template": ENDS_AT_ONCE}
        gpu_pods.apply(cluster, a_policy(NAMESPACE, name, engine=engine, gpu=kind.gpu))
        if name == "a":
            until("the pods of a wait", lambda: all_wait(cluster, 4, 0), 60)
    until("all pods wait", lambda: all_wait(cluster, 4, 2), 60)


@KINDS
def test_the_chart_gives_whole_policies_their_share(new_cluster: NewCluster, kind: Kind) -> None:
    cluster = new_cluster([SYSTEM])
    release.install(cluster)
    apply_policies(cluster, kind)
    cluster.set_nodes([SYSTEM, kind.node])
    until("two pods each", lambda: shares(cluster) == (2, 2))
    until("our reason in the others' conditions", lambda: says_why(cluster))
    cluster.kubectl("delete", "tsp", "b", f"--namespace={NAMESPACE}", "--wait=false")
    assert until("everything for a", lambda: shares(cluster) == (4, 0), 60)
