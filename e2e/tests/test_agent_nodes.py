"""Nodes follow their file: added, changed, removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.nodes import NodeSpec
from e2e.poll import until
from e2e.tests import podkit
from e2e.tests.podkit import a_container, a_pod

if TYPE_CHECKING:
    from e2e.conftest import NewCluster

pytestmark = pytest.mark.cluster


def test_nodes_come_change_and_go_with_their_pods(new_cluster: NewCluster) -> None:
    cluster = new_cluster([NodeSpec.gpu("gpu-0", gpus=1)])
    two = {"limits": {"nvidia.com/gpu": 2}}
    podkit.apply(cluster, a_pod("default", "wide", a_container(resources=two)))
    podkit.run_ready(cluster, a_pod("default", "stays"))

    def node(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(cluster.kubectl("get", "node", name, "-ojson"))
        return found

    # More capacity and another label: the waiting pod finds its place.
    cluster.set_nodes([NodeSpec("gpu-0", {"zone": "a"}, {"cpu": "8", "nvidia.com/gpu": "2"})])
    podkit.wait_for(cluster, "default", "wide", podkit.is_ready)
    until("the label", lambda: node("gpu-0")["metadata"]["labels"].get("zone") == "a")
    assert "nvidia.com/gpu.product" not in node("gpu-0")["metadata"]["labels"]
    assert node("gpu-0")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    devices = podkit.inside(cluster, "default", "wide", "echo $NVIDIA_VISIBLE_DEVICES")
    assert devices.strip() == "GPU-gpu-0-0,GPU-gpu-0-1"

    # A resource that is gone is gone from the node; a second node takes over.
    mine = cluster.processes("default", "wide") + cluster.processes("default", "stays")
    assert mine
    cluster.set_nodes([NodeSpec.mps("gpu-1", gpus=2, replicas=2)])
    until("no process", lambda: not [pid for pid in mine if Path(f"/proc/{pid}").exists()])
    until("no pod", lambda: not json.loads(cluster.kubectl("get", "pods", "-ojson"))["items"])
    assert "nvidia.com/gpu" not in node("gpu-1")["status"]["capacity"]
    assert node("gpu-1")["status"]["capacity"]["nvidia.com/gpu.shared"] == "4"

    shared = {"limits": {"nvidia.com/gpu.shared": 1}}
    for name in ("a", "b", "c"):
        podkit.run_ready(cluster, a_pod("default", name, a_container(resources=shared)))
    seen = [
        podkit.inside(cluster, "default", name, "echo $NVIDIA_VISIBLE_DEVICES").strip()
        for name in ("a", "b", "c")
    ]
    assert seen == ["GPU-gpu-1-0", "GPU-gpu-1-0", "GPU-gpu-1-1"]


def test_thirty_replicas_roll_out_and_leave_no_process(new_cluster: NewCluster) -> None:
    cluster = new_cluster([NodeSpec("large")])
    labels = {"app": "many"}
    template = {"metadata": {"labels": labels}, "spec": a_pod("default", "x")["spec"]}
    podkit.apply(
        cluster,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "many", "namespace": "default"},
            "spec": {"replicas": 30, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    cluster.kubectl("rollout", "status", "deployment/many", "--timeout=60s")
    names = cluster.kubectl("get", "pods", "-ojsonpath={.items[*].metadata.name}").split()
    mine = [pid for name in names for pid in cluster.processes("default", name)]
    assert len(mine) == 30
    cluster.kubectl("delete", "deployment", "many", "--cascade=foreground")
    until("no process", lambda: not [pid for pid in mine if Path(f"/proc/{pid}").exists()])
