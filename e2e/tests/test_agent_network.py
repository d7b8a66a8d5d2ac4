"""Services by address and by name; logs and exec through the API server."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from e2e.poll import until
from e2e.problem import Problem
from e2e.tests import podkit
from e2e.tests.podkit import a_container, a_pod, a_service, a_shell

if TYPE_CHECKING:
    from e2e.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

READY = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}


def _server(cluster: Cluster, namespace: str) -> str:
    """A pod and a Service, both called `web`; the Service's address."""
    podkit.apply(cluster, a_service(namespace, "web"))
    container = a_container(image=podkit.ECHO, readinessProbe=READY)
    podkit.run_ready(cluster, a_pod(namespace, "web", container))
    address = cluster.kubectl(
        "get", "service", "web", f"-n{namespace}", "-ojsonpath={.spec.clusterIP}"
    )
    until("the route", lambda: _answers(cluster, f"http://{address}/"))
    return address


def _answers(cluster: Cluster, url: str) -> bool:
    command = ["curl", "-s", "-m2", "-o", "/dev/null", url]
    return cluster.run_inside(command, check=False).returncode == 0


def test_a_service_answers_by_address_and_by_name_from_everywhere(
    cluster: Cluster, namespace: str
) -> None:
    address = _server(cluster, namespace)
    podkit.run_ready(cluster, a_pod(namespace, "client"))
    full = f"web.{namespace}.svc.cluster.local"
    for host in (address, "web", f"web.{namespace}", f"web.{namespace}.svc", full):
        for caller in ("client", "web"):
            answer = podkit.inside(cluster, namespace, caller, f"curl -sm5 http://{host}/")
            assert json.loads(answer)["hostname"] == "web", (caller, host)
    for host in (address, f"web.{namespace}"):
        answer = cluster.run_inside(["curl", "-sm5", f"http://{host}/"]).stdout
        assert json.loads(answer)["hostname"] == "web", host


def test_a_service_without_ready_endpoints_refuses_at_once(
    cluster: Cluster, namespace: str
) -> None:
    address = _server(cluster, namespace)
    cluster.kubectl("delete", "pod", "web", f"-n{namespace}")

    def refused() -> bool:
        began = time.monotonic()
        done = cluster.run_inside(["curl", "-sm5", f"http://{address}/"], check=False)
        return done.returncode == 7 and time.monotonic() - began < 2

    assert until("refusal", refused, seconds=10)


def test_a_headless_service_names_its_pods(cluster: Cluster, namespace: str) -> None:
    headless = a_service(namespace, "web")
    headless["spec"]["clusterIP"] = "None"
    podkit.apply(cluster, headless)
    seen = podkit.run_ready(cluster, a_pod(namespace, "web", a_container(image=podkit.ECHO)))
    assert until(
        "the name",
        lambda: (
            seen["status"]["podIP"]
            in podkit.inside(cluster, namespace, "web", "getent hosts web.$0 || true").split()
            or seen["status"]["podIP"]
            in podkit.inside(cluster, namespace, "web", "getent hosts web || true").split()
        ),
        seconds=10,
    )


def test_logs_can_be_cut_followed_and_asked_of_the_last_run(
    cluster: Cluster, namespace: str
) -> None:
    script = "for i in 1 2 3; do echo line-$i; done; echo oops >&2; sleep 1; echo end; exit 1"
    manifest = a_pod(namespace, "talker", a_shell(script), restartPolicy="OnFailure")
    podkit.run_ready(cluster, manifest)
    logs = ["logs", "talker", f"-n{namespace}"]
    followed = cluster.kubectl(*logs, "-f")
    assert followed.split() == ["line-1", "line-2", "line-3", "oops", "end"]
    until(
        "a restart", lambda: podkit.state(cluster, namespace, "talker").get("restartCount", 0) > 0
    )
    previous = until("the log", lambda: cluster.kubectl(*logs, "--previous", check=False))
    assert previous.split()[-1] == "end"
    tail = cluster.kubectl(*logs, "--previous", "--tail=2")
    assert tail.split() == ["oops", "end"]


def test_exec_has_streams_and_exit_status(cluster: Cluster, namespace: str) -> None:
    podkit.run_ready(cluster, a_pod(namespace, "shell"))
    inward = ["exec", "-i", "shell", f"-n{namespace}", "--"]
    text = "x" * 200_000
    assert cluster.kubectl(*inward, "cat", stdin=text) == text
    assert cluster.kubectl(*inward, "wc", "-c", stdin=text).strip() == "200000"
    command = ["kubectl", *inward, "sh", "-c", "echo out; echo err >&2; exit 7"]
    done = cluster.run_inside(command, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err\n" in done.stderr


def test_exec_into_what_does_not_run_is_refused(cluster: Cluster, namespace: str) -> None:
    podkit.apply(cluster, a_pod(namespace, "done", a_shell("exit 0"), restartPolicy="Never"))
    podkit.wait_for(cluster, namespace, "done", podkit.phase_is("Succeeded"))
    with pytest.raises(Problem):
        podkit.inside(cluster, namespace, "done", "true")
    podkit.run_ready(cluster, a_pod(namespace, "shell"))
    answer = cluster.kubectl(
        "exec", "shell", f"-n{namespace}", "--", "no-such-program", check=False
    )
    assert "executable file not found" in answer


def test_the_agents_door_wants_the_api_servers_certificate(cluster: Cluster) -> None:
    command = ["curl", "-sk", "-m5", "https://10.244.0.1:10250/containerLogs/a/b/c"]
    done = cluster.run_inside(command, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
