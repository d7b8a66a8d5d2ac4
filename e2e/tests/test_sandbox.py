"""The local cluster itself: it starts, can be reached, and leaves nothing, whatever happens."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import build, paths, poll
from e2e.cluster import layout, processes, sandbox
from e2e.cluster.handle import Cluster
from e2e.cluster.layout import Layout, Outcome
from e2e.cluster.nodes import NodeSpec, gpu_nodes
from e2e.cluster.processes import Process
from e2e.conftest import NewCluster
from e2e.problem import Problem

pytestmark = pytest.mark.cluster

COMMAND = (sys.executable, "-m", "e2e.cluster")
NAME = f"tests-{os.getpid()}-cli"


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    """One command of `python -m e2e.cluster` on a cluster of this module's own."""
    verb, *rest = args
    return subprocess.run(
        [*COMMAND, verb, f"--name={NAME}", *rest],
        cwd=paths.checkout(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def words_of(entry: Path) -> bytes:
    """The command line of an entry of /proc; nothing where it is no process, or has just ended."""
    try:
        return (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
    except (FileNotFoundError, ProcessLookupError):
        return b""


def belonging_to(name: str) -> list[str]:
    """The command lines of all processes that name this cluster's run directory."""
    needle = f"/clusters/{name}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        line = words_of(entry)
        if needle in line + b"/":
            found.append(line.replace(b"\0", b" ").decode())
    return found


@pytest.fixture
def command_line() -> Iterator[Layout]:
    """The files of the cluster that the test starts by command; stopped and removed afterwards."""
    files = Layout(paths.clusters() / NAME)
    yield files
    run("down")
    shutil.rmtree(files.run_dir, ignore_errors=True)


@pytest.fixture
def starting(command_line: Layout) -> Iterator["subprocess.Popen[str]"]:
    """`up` at the moment when its API server starts."""
    with subprocess.Popen(
        [*COMMAND, "up", f"--name={NAME}"],
        cwd=paths.checkout(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        poll.until("the API server", command_line.log("kube-apiserver").exists, 60, every=0.02)
        yield process


def test_kubectl_reaches_the_cluster_from_outside(cluster: Cluster) -> None:
    assert "Server Version: v1.36.3" in cluster.kubectl("version")
    assert cluster.kubectl("get", "serviceaccount", "default", "-o", "name") == (
        "serviceaccount/default\n"
    )


def test_kubectl_leaves_nothing_outside_of_the_run_directory(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    cluster.kubectl("get", "namespaces")
    assert list(tmp_path.iterdir()) == []
    assert list((cluster.run_dir / "kubectl").iterdir()) != []


def test_helm_reaches_the_cluster_from_outside(cluster: Cluster) -> None:
    assert json.loads(cluster.helm("list", "--namespace=default", "--output=json")) == []


def test_the_same_kubeconfig_works_inside(cluster: Cluster) -> None:
    done = cluster.run_inside(["kubectl", "get", "namespace", "default", "-o", "name"])
    assert done.stdout == "namespace/default\n"


def test_a_failing_kubectl_says_what_it_was_asked_and_what_it_answered(cluster: Cluster) -> None:
    with pytest.raises(Problem, match=r'`kubectl get pod nobody`: .*pods "nobody" not found'):
        cluster.kubectl("get", "pod", "nobody")
    assert 'pods "nobody" not found' in cluster.kubectl("get", "pod", "nobody", check=False)


def test_the_api_server_is_a_service_with_an_address(cluster: Cluster) -> None:
    found = json.loads(
        cluster.kubectl("get", "endpointslice", "kubernetes", "--namespace=default", "-o", "json")
    )
    assert found["endpoints"][0]["addresses"] == ["10.244.0.1"]


def test_every_request_is_in_the_audit_log(cluster: Cluster) -> None:
    cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/configmaps?labelSelector=me")
    events = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    (mine,) = [event for event in events if event["requestURI"].endswith("labelSelector=me")]
    assert mine["user"]["username"] == "admin"
    assert mine["responseStatus"]["code"] == 200
    assert {event["level"] for event in events} == {"Metadata"}


def test_the_proxy_leads_to_no_loopback_port(cluster: Cluster) -> None:
    proxy = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["proxy-url"]
    done = subprocess.run(
        ["curl", "-sS", "-p", "-x", proxy, "http://127.0.0.1:2379/health"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "403" in done.stderr


def test_only_the_owner_can_read_the_run_directory(cluster: Cluster) -> None:
    assert cluster.run_dir.stat().st_mode & 0o777 == 0o700
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_a_command_inside_sees_the_clusters_network_and_this_folder(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = cluster.run_inside(["sh", "-c", "ip -brief address; pwd"], cwd=tmp_path)
    assert "10.244.0.1/32" in done.stdout
    assert done.stdout.endswith(f"{tmp_path}\n")


def test_the_exit_status_of_a_command_inside_comes_out(cluster: Cluster) -> None:
    assert cluster.run_inside(["sh", "-c", "exit 7"], check=False).returncode == 7
    with pytest.raises(Problem, match="ended with 7: away"):
        cluster.run_inside(["sh", "-c", "echo away >&2; exit 7"])


def test_a_command_inside_dies_with_its_handle(cluster: Cluster, tmp_path: Path) -> None:
    marker = tmp_path / "running"
    with cluster.inside(["sh", "-c", f"touch {marker}; sleep 1000"]) as process:
        poll.until("the command", marker.exists)
        inner = processes.child(process.pid)
        assert inner is not None
        process.kill()
    assert processes.wait_gone(inner, 5)


def test_nodes_come_and_go_as_asked(new_cluster: NewCluster) -> None:
    own = new_cluster(gpu_nodes(1, 4))
    own.set_nodes([NodeSpec.gpu("gpu-0", 8), NodeSpec.mps("shared", 2, 4)])
    found = json.loads(own.kubectl("get", "nodes", "-o", "json"))["items"]
    allocatable = {node["metadata"]["name"]: node["status"]["allocatable"] for node in found}
    assert allocatable["gpu-0"]["nvidia.com/gpu"] == "8"
    assert allocatable["shared"]["nvidia.com/gpu.shared"] == "8"
    own.set_nodes([])
    assert own.kubectl("get", "nodes", "-o", "name") == ""


def test_two_clusters_run_at_a_time_and_know_nothing_of_each_other(
    cluster: Cluster, new_cluster: NewCluster, namespace: str
) -> None:
    other = new_cluster([])
    assert namespace in cluster.kubectl("get", "namespaces", "-o", "name")
    assert namespace not in other.kubectl("get", "namespaces", "-o", "name")
    assert cluster.run_dir != other.run_dir


def test_a_stopped_cluster_leaves_no_process_no_secret_and_no_network(
    new_cluster: NewCluster,
) -> None:
    def host() -> list[str]:
        links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True)
        return [links.stdout, Path("/proc/self/mounts").read_text()]

    before = host()
    own = new_cluster([])
    init = processes.find(own.init_pid)
    assert belonging_to(own.run_dir.name)
    own.stop()
    assert init is not None
    assert not init.alive
    assert belonging_to(own.run_dir.name) == []
    assert host() == before
    left = {path.name for path in own.run_dir.iterdir()}
    assert not left & {"pki", "kubeconfig", "agent.json", "etcd"}
    assert "etcd.log" in left
    own.stop()


def test_a_killed_component_is_one_sentence_and_leaves_nothing(new_cluster: NewCluster) -> None:
    own = new_cluster([])
    kill("etcd", own.run_dir.name)
    init = processes.find(own.init_pid)
    if init is not None:
        assert processes.wait_gone(init)
    with pytest.raises(Problem, match=r"^etcd was killed by SIGKILL, so the local cluster has"):
        own.kubectl("get", "nodes")
    assert belonging_to(own.run_dir.name) == []


def kill(component: str, name: str) -> None:
    """SIGKILL to one component of a cluster."""
    for entry in Path("/proc").iterdir():
        line = words_of(entry)
        program = line.split(b"\0")[0].decode()
        if program.endswith(f"/{component}") and f"/clusters/{name}/".encode() in line:
            os.kill(int(entry.name), signal.SIGKILL)


def test_a_cluster_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from e2e.cluster.handle import Cluster\n"
        f"cluster = Cluster.start('orphan', [], pathlib.Path({str(tmp_path)!r}))\n"
        "print(cluster.init_pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=paths.checkout(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        init = processes.find(int(starter.stdout.readline()))
        starter.kill()
    assert init is not None
    assert processes.wait_gone(init, 10)


def test_a_cluster_whose_run_directory_is_removed_ends(new_cluster: NewCluster) -> None:
    own = new_cluster([])
    init = processes.find(own.init_pid)
    assert init is not None
    (own.run_dir / "plan.json").unlink()
    assert processes.wait_gone(init, 10)


def test_the_commands_up_status_exec_and_down(command_line: Layout) -> None:
    assert run("status").returncode == 1
    up = run("up", "--nodes=1", "--gpus=8")
    assert (up.returncode, up.stdout) == (0, f"{command_line.kubeconfig}\n")
    again = run("up")
    assert (again.returncode, again.stdout) == (0, up.stdout)
    assert f"cluster {NAME} is already up" in again.stderr
    facts = json.loads(run("status", "-o", "json").stdout)
    assert (facts["up"], facts["nodes"]) == (True, 1)
    inside = run("exec", "--", "sh", "-c", "kubectl config current-context; exit 5")
    assert (inside.returncode, inside.stdout) == (5, "local\n")
    run("up", "--nodes=2")
    assert layout.node_names(command_line.nodes) == ["gpu-0", "gpu-1"]
    assert run("down").returncode == 0
    assert belonging_to(NAME) == []
    assert run("down").returncode == 0
    assert run("status").returncode == 1
    nowhere = run("exec", "--", "true")
    assert nowhere.returncode == 3
    assert "is not up" in nowhere.stderr


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_an_interrupted_up_leaves_nothing(starting: "subprocess.Popen[str]") -> None:
    starting.send_signal(signal.SIGINT)
    _, said = starting.communicate(timeout=30)
    assert starting.returncode == 130
    assert said.splitlines()[-1] == "cluster up: interrupted; nothing is left running"
    assert belonging_to(NAME) == []


def test_a_killed_up_leaves_nothing_and_the_next_one_works(
    starting: "subprocess.Popen[str]",
) -> None:
    starting.kill()
    starting.wait()
    poll.until("no process", lambda: not belonging_to(NAME), 10)
    assert run("up").returncode == 0


def test_a_cluster_of_before_a_restart_is_no_obstacle(command_line: Layout) -> None:
    sandbox.fresh(command_line.run_dir)
    own = processes.find(os.getpid())
    assert own is not None
    earlier = {"pid": own.pid, "started": own.started}
    layout.write(command_line.outcome, Outcome("ready", "ready"))
    layout.write_json(
        command_line.state, {"outer": earlier, "init": earlier, "boot": "of yesterday"}
    )
    status = run("status")
    assert status.returncode == 3
    assert "the machine has been restarted since" in status.stderr
    assert run("up").returncode == 0
    assert Process(own.pid, own.started).alive


@pytest.mark.usefixtures("command_line")
def test_a_component_that_does_not_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANTRY_CACHE", str(tmp_path))
    folder = build.folder()
    folder.mkdir(parents=True)
    for name in build.BINARIES:
        (folder / name).write_text("#!/bin/sh\necho it is broken >&2\nexit 4\n")
        (folder / name).chmod(0o755)
    begun = time.monotonic()
    done = run("up")
    assert done.returncode == 3
    last = done.stderr.splitlines()[-1]
    assert last.startswith("cluster up: etcd ended with status 4, so the local cluster has stopped")
    assert last.endswith("says: it is broken")
    assert time.monotonic() - begun < 20
    assert belonging_to(NAME) == []


@pytest.mark.usefixtures("command_line")
def test_a_machine_that_forbids_namespaces_is_told_the_way_out() -> None:
    if os.geteuid() == 0:
        less = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    else:
        forbid = "echo 0 > /proc/sys/user/max_net_namespaces"
        less = ["unshare", "--user", "--map-root-user", "sh", "-c", f'{forbid} && exec "$@"', "sh"]
    done = subprocess.run(
        [*less, *COMMAND, "up", f"--name={NAME}"],
        cwd=paths.checkout(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "make demo-engine" in done.stderr
