"""Pods from their start to their end: images, restarts, probes, deletion, admission."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.poll import until
from e2e.tests import podkit
from e2e.tests.podkit import a_container, a_pod, a_shell

if TYPE_CHECKING:
    from e2e.cluster.handle import Cluster

pytestmark = pytest.mark.cluster


def test_an_image_that_is_not_mapped_never_starts(cluster: Cluster, namespace: str) -> None:
    podkit.apply(cluster, a_pod(namespace, "strange", a_container(image="docker.io/nginx:1")))
    podkit.wait_for(cluster, namespace, "strange", podkit.waits_with("ErrImageNeverPull"))
    assert podkit.state(cluster, namespace, "strange")["restartCount"] == 0
    assert cluster.processes(namespace, "strange") == []


def test_a_crashing_container_is_restarted_with_back_off(cluster: Cluster, namespace: str) -> None:
    podkit.apply(cluster, a_pod(namespace, "crash", a_shell("echo here; exit 4")))
    podkit.wait_for(cluster, namespace, "crash", podkit.waits_with("CrashLoopBackOff"))
    seen = podkit.state(cluster, namespace, "crash")
    assert seen["lastState"]["terminated"]["exitCode"] == 4
    until(
        "a third start",
        lambda: podkit.state(cluster, namespace, "crash")["restartCount"] >= 2,
    )


@pytest.mark.parametrize(
    ("policy", "script", "phase"),
    [
        ("Never", "exit 0", "Succeeded"),
        ("Never", "exit 3", "Failed"),
        ("OnFailure", "test -e /data/x || { touch /data/x; exit 1; }", "Succeeded"),
    ],
)
def test_a_pod_that_ends_has_the_phase_of_its_restart_policy(
    cluster: Cluster, namespace: str, policy: str, script: str, phase: str
) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    manifest = a_pod(
        namespace,
        "once",
        a_shell(script, volumeMounts=mounts),
        restartPolicy=policy,
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    podkit.apply(cluster, manifest)
    podkit.wait_for(cluster, namespace, "once", podkit.phase_is("Succeeded", "Failed"))
    seen = podkit.pod(cluster, namespace, "once")
    assert seen["status"]["phase"] == phase
    restarts = seen["status"]["containerStatuses"][0]["restartCount"]
    assert restarts == (1 if policy == "OnFailure" else 0)


def test_a_program_that_cannot_start_says_why(cluster: Cluster, namespace: str) -> None:
    podkit.apply(
        cluster,
        a_pod(namespace, "absent", a_container(command=["no-such"]), restartPolicy="Never"),
    )
    seen = podkit.wait_for(cluster, namespace, "absent", podkit.phase_is("Failed"))
    ended = seen["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 128
    assert 'exec: "no-such": executable file not found in $PATH' in ended["message"]


def test_init_containers_run_one_after_the_other_before_the_rest(
    cluster: Cluster, namespace: str
) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    scripts = ("sleep 0.3; echo one >> /data/log", "echo two >> /data/log")
    manifest = a_pod(
        namespace,
        "steps",
        a_container(volumeMounts=mounts),
        initContainers=[
            a_shell(script, f"step-{number}", volumeMounts=mounts)
            for number, script in enumerate(scripts)
        ],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    podkit.run_ready(cluster, manifest)
    assert podkit.inside(cluster, namespace, "steps", "cat /data/log") == "one\ntwo\n"


def test_a_failed_init_container_ends_a_pod_that_never_restarts(
    cluster: Cluster, namespace: str
) -> None:
    init = [a_shell("exit 1", "first")]
    podkit.apply(cluster, a_pod(namespace, "halted", initContainers=init, restartPolicy="Never"))
    seen = podkit.wait_for(cluster, namespace, "halted", podkit.phase_is("Failed"))
    assert seen["status"]["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "PodInitializing"}
    }


def test_readiness_follows_its_probe_both_ways(cluster: Cluster, namespace: str) -> None:
    probe = {"exec": {"command": ["test", "-e", "/up"]}, "periodSeconds": 1}
    probe |= {"failureThreshold": 1}
    podkit.apply(cluster, a_pod(namespace, "moody", a_container(readinessProbe=probe)))
    podkit.wait_for(
        cluster, namespace, "moody", lambda found: found["status"].get("phase") == "Running"
    )
    assert not podkit.is_ready(podkit.pod(cluster, namespace, "moody"))
    podkit.inside(cluster, namespace, "moody", "touch /up")
    podkit.wait_for(cluster, namespace, "moody", podkit.is_ready)
    podkit.inside(cluster, namespace, "moody", "rm /up")
    podkit.wait_for(cluster, namespace, "moody", lambda found: not podkit.is_ready(found))
    assert podkit.state(cluster, namespace, "moody")["restartCount"] == 0


def test_a_failed_liveness_probe_restarts_the_container(cluster: Cluster, namespace: str) -> None:
    probe = {"httpGet": {"port": 8080, "path": "/status/500"}, "periodSeconds": 1}
    probe |= {"failureThreshold": 2}
    manifest = a_pod(namespace, "sick", a_container(image=podkit.ECHO, livenessProbe=probe))
    podkit.apply(cluster, manifest)
    until("a restart", lambda: podkit.state(cluster, namespace, "sick").get("restartCount"))
    events = cluster.kubectl("get", "events", f"-n{namespace}")
    assert "Liveness probe failed: HTTP probe failed with statuscode: 500" in events


def test_a_startup_probe_holds_the_others_back_and_kills_what_does_not_come_up(
    cluster: Cluster, namespace: str
) -> None:
    never = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 2}
    always = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    manifest = a_pod(namespace, "late", a_container(startupProbe=never, readinessProbe=always))
    podkit.apply(cluster, manifest)
    until("a restart", lambda: podkit.state(cluster, namespace, "late").get("restartCount"))
    assert not podkit.is_ready(podkit.pod(cluster, namespace, "late"))


def test_deletion_runs_the_hook_sends_sigterm_and_leaves_no_process(
    cluster: Cluster, namespace: str
) -> None:
    script = "trap 'echo term; exit 0' TERM; echo up; while true; do sleep 0.1; done"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /proc/1/fd/1"]}}}
    podkit.run_ready(cluster, a_pod(namespace, "polite", a_shell(script, lifecycle=hook)))
    mine = cluster.processes(namespace, "polite")
    assert mine
    with cluster.inside(
        ["kubectl", "logs", "-f", "polite", f"-n{namespace}"], stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "up\n"  # from here on it follows
        cluster.kubectl("delete", "pod", "polite", f"-n{namespace}")
        output, _ = follower.communicate(timeout=20)
    assert output.split() == ["hook", "term"]
    assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(
    cluster: Cluster, namespace: str
) -> None:
    script = "trap '' TERM; (while true; do sleep 0.1; done) & while true; do sleep 0.1; done"
    podkit.run_ready(cluster, a_pod(namespace, "deaf", a_shell(script)))
    mine = cluster.processes(namespace, "deaf")
    began = time.monotonic()
    cluster.kubectl("delete", "pod", "deaf", f"-n{namespace}")
    assert 1.5 < time.monotonic() - began < 8
    assert len(mine) >= 2
    assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]


def test_a_forced_deletion_does_not_wait(cluster: Cluster, namespace: str) -> None:
    script = "trap '' TERM; while true; do sleep 0.1; done"
    manifest = a_pod(namespace, "stuck", a_shell(script), terminationGracePeriodSeconds=300)
    podkit.run_ready(cluster, manifest)
    mine = cluster.processes(namespace, "stuck")
    cluster.kubectl("delete", "pod", "stuck", f"-n{namespace}", "--force", "--grace-period=0")
    assert until("no process", lambda: not [pid for pid in mine if Path(f"/proc/{pid}").exists()])


def test_a_node_refuses_a_pod_whose_devices_are_taken(cluster: Cluster, namespace: str) -> None:
    four = {"limits": {"nvidia.com/gpu": 4}}
    node = {"nodeName": "gpu-1"}
    podkit.run_ready(cluster, a_pod(namespace, "holder", a_container(resources=four), **node))
    visible = podkit.inside(cluster, namespace, "holder", "echo $NVIDIA_VISIBLE_DEVICES")
    assert visible.strip() == ",".join(f"GPU-gpu-1-{index}" for index in range(4))
    podkit.apply(cluster, a_pod(namespace, "second", a_container(resources=four), **node))
    seen = podkit.wait_for(cluster, namespace, "second", podkit.phase_is("Failed"))
    assert seen["status"]["reason"] == "UnexpectedAdmissionError"
    assert "nvidia.com/gpu" in seen["status"]["message"]
    assert cluster.processes(namespace, "second") == []
    greedy = a_container(resources={"requests": {"cpu": "1000"}})
    podkit.apply(cluster, a_pod(namespace, "third", greedy, **node))
    seen = podkit.wait_for(cluster, namespace, "third", podkit.phase_is("Failed"))
    assert seen["status"]["reason"] == "OutOfcpu"
