"""The chart's extender notices whose turn it is, and makes kube-scheduler look again."""

import pytest

from e2e import gpu_pods
from e2e.cluster.handle import Cluster
from e2e.gpu_pods import a_pod, a_policy, bound, reasons
from e2e.poll import until
from e2e.tests.test_extender_wire import LONELY, OVER_SHARE
from tenantry_api.names import ANNOTATION_POKE

pytestmark = pytest.mark.cluster


def test_the_installed_extender_pokes_a_pod_whose_turn_an_edited_policy_brings(
    installed: Cluster, namespace: str
) -> None:
    nothing = {"image": gpu_pods.IDLE, "replicas": 0}
    for name in "ab":
        gpu_pods.apply(installed, a_policy(namespace, name, engine=nothing))
    gpu_pods.apply(installed, *[a_pod(namespace, "b", n, **LONELY) for n in range(8)])
    until("the pods of b were tried", lambda: all(reasons(installed, namespace, "b")))
    gpu_pods.apply(installed, *[a_pod(namespace, "a", n) for n in range(8)])
    until("a pod of a waits for b", lambda: OVER_SHARE in str(reasons(installed, namespace, "a")))
    before = bound(installed, namespace, "a")
    gpu_pods.apply(installed, a_policy(namespace, "b", engine=nothing, weight=0))
    until("another pod of a placed", lambda: bound(installed, namespace, "a") > before)
    pods = gpu_pods.pods_of(installed, namespace, "a")
    assert any(ANNOTATION_POKE in p["metadata"].get("annotations", {}) for p in pods)
