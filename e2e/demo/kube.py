"""The arms on a local cluster: chart, nodes, policies, and the load through their Services."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import paths, release
from e2e.cluster.handle import Cluster
from e2e.cluster.nodes import NodeSpec, gpu_nodes
from e2e.demo import policies
from e2e.demo.progress import Progress
from e2e.problem import Problem
from tenantry_api.names import API_VERSION, LABEL_POLICY, PLURAL

NAME = "demo"
CONTROL = NodeSpec("control")
"""A node without a GPU, for the chart's own pods."""

READY_SECONDS = 300.0
SHOWN_EVERY = 10.0
LOG_LINES = 8


@dataclass(frozen=True)
class KubePlace:
    """Two policies in a cluster; a server is reached through the Service of its policy."""

    cluster: Cluster
    services: dict[str, str]

    def where(self, server: str) -> Sequence[str]:
        return [f"--service={self.services[server]}"]

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[str]":
        process: subprocess.Popen[str] = self.cluster.inside(
            argv, stdout=subprocess.PIPE, text=True, cwd=paths.checkout()
        )
        return process

    def check(self) -> None:
        self.cluster.check()


@contextmanager
def place(folder: Path, progress: Progress) -> Iterator[KubePlace]:
    """A cluster with the chart and both policies Ready; afterwards nothing of it is left."""
    files = policies.write(folder / "policies")
    with progress.step("start the cluster"):
        cluster = Cluster.start(NAME, [CONTROL], say=progress.say)
    try:
        progress.say(f"KUBECONFIG={cluster.kubeconfig}")
        with progress.step("helm install"):
            release.install(cluster)
        with progress.step("add two GPU nodes"):
            cluster.set_nodes([CONTROL, *gpu_nodes(2, 4)])
        services = {server: _apply(cluster, file, progress) for server, file in files.items()}
        with progress.step("wait until both policies are Ready"):
            _wait_ready(cluster, services.values(), progress)
        _show(cluster, progress)
        yield KubePlace(cluster, services)
    finally:
        with progress.step("stop the cluster"):
            cluster.stop()


def _apply(cluster: Cluster, file: Path, progress: Progress) -> str:
    """`kubectl apply` one policy; its `NAMESPACE/NAME`, which is its Service's too."""
    policy = policies.checked(policies.read(file))
    namespace = policy.metadata.namespace
    cluster.kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        ),
    )
    said = cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(file))
    progress.say(f"kubectl apply: {said.strip()}")
    return f"{namespace}/{policy.metadata.name}"


def _wait_ready(cluster: Cluster, names: Any, progress: Progress) -> None:
    waiting = list(names)
    deadline, shown = time.monotonic() + READY_SECONDS, time.monotonic()
    while waiting:
        cluster.check()
        states = {name: ready(_policy(cluster, name)) for name in waiting}
        for name in [name for name in waiting if states[name][0]]:
            progress.say(f"{name} is Ready")
            waiting.remove(name)
        if waiting and time.monotonic() > deadline:
            raise Problem(_why(cluster, waiting[0], states[waiting[0]][1]))
        if waiting and time.monotonic() - shown > SHOWN_EVERY:
            shown = time.monotonic()
            progress.say("; ".join(f"{name}: {states[name][1]}" for name in waiting))
        time.sleep(0.5)


def _policy(cluster: Cluster, name: str) -> dict[str, Any]:
    namespace, _, bare = name.partition("/")
    path = f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}/{bare}"
    return cluster.get(path) or {}


def ready(policy: dict[str, Any]) -> tuple[bool, str]:
    """Whether a policy is Ready for what it asks now, and why not."""
    for condition in policy.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            stale = condition.get("observedGeneration", 0) < policy["metadata"].get("generation", 0)
            text = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            return condition["status"] == "True" and not stale, text
    return False, "the operator has not said anything yet"


def _why(cluster: Cluster, name: str, state: str) -> str:
    namespace, _, bare = name.partition("/")
    selector = f"--selector={LABEL_POLICY}={bare}"
    pods = cluster.kubectl("get", "pods", f"--namespace={namespace}", selector, check=False)
    log = cluster.kubectl(
        "logs", f"--namespace={namespace}", selector, f"--tail={LOG_LINES}", check=False
    )
    return (
        f"{name} is not Ready after {READY_SECONDS:.0f} s ({state}); its pods:\n{pods.strip()}\n"
        f"their last words:\n{log.strip()}"
    )


def _show(cluster: Cluster, progress: Progress) -> None:
    for line in cluster.kubectl("get", "tsp,pods", "--all-namespaces").splitlines():
        progress.say(line)
    sys.stderr.flush()
