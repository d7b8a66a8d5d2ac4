"""The parts of the local cluster that need no cluster: values in, values out."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from e2e import poll
from e2e.cluster import (
    addresses,
    api,
    certificates,
    components,
    layout,
    main,
    namespaces,
    nodes,
    pods,
    processes,
    proxy,
    sandbox,
    settings,
)
from e2e.cluster.layout import Layout, Outcome, Plan
from e2e.cluster.nodes import NodeSpec
from e2e.problem import Problem

PLAN = Plan("r1", "/run/x", "/bin/x", 3, 40000, 4, ("agent",))


def test_missing_commands_are_named_with_their_packages_and_the_way_out(tmp_path: Path) -> None:
    for name in set(namespaces.PACKAGES) - {"nft", "ip"}:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(Problem) as raised:
        namespaces.require({"PATH": str(tmp_path)})
    assert "needs ip, nft: `apt-get install iproute2 nftables`" in str(raised.value)
    assert "make demo-engine" in str(raised.value)


def test_a_refusal_of_namespaces_names_the_reason_and_the_way_out() -> None:
    said = namespaces.forbidden("unshare: unshare failed: Operation not permitted\n")
    assert "Operation not permitted" in said
    assert "make demo-engine" in said
    assert "\n" not in said


def test_inside_the_sandbox_there_is_no_proxy_and_no_other_cluster() -> None:
    env = namespaces.environment(
        {"PATH": "/usr/bin:/usr/sbin", "HTTPS_PROXY": "x", "no_proxy": "y", "KUBECONFIG": "z"}
    )
    assert env == {"PATH": "/usr/bin:/usr/sbin:/usr/local/sbin:/sbin"}


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        pytest.param("CONNECT 10.244.0.1:6443 HTTP/1.1", ("10.244.0.1", 6443), id="server"),
        pytest.param("CONNECT 10.0.7.9:80 HTTP/1.1", ("10.0.7.9", 80), id="Service"),
        pytest.param("CONNECT 127.0.0.1:2379 HTTP/1.1", "403", id="etcd"),
        pytest.param("CONNECT [::1]:2379 HTTP/1.1", "400", id="loopback, version 6"),
        pytest.param("CONNECT 192.168.0.1:80 HTTP/1.1", "403", id="elsewhere"),
        pytest.param("CONNECT example.com:443 HTTP/1.1", "400", id="name"),
        pytest.param("CONNECT 10.244.0.1 HTTP/1.1", "400", id="no port"),
        pytest.param("CONNECT", "400", id="nothing"),
        pytest.param("GET http://10.244.0.1/ HTTP/1.1", "405", id="no CONNECT"),
    ],
)
def test_the_proxy_serves_the_cluster_and_nothing_else(
    line: str, answer: tuple[str, int] | str
) -> None:
    if isinstance(answer, tuple):
        assert proxy.target(line) == answer
    else:
        with pytest.raises(proxy.Refused) as raised:
            proxy.target(line)
        assert raised.value.status.startswith(answer)


def test_the_components_start_in_the_order_in_which_they_need_each_other() -> None:
    stages = components.stages(PLAN, Layout(Path("/run/x")))
    assert [[component.name for component in stage] for stage in stages] == [
        ["etcd"],
        ["kube-apiserver"],
        ["kube-controller-manager", "kube-scheduler"],
        ["agent"],
    ]
    assert {component.name for stage in stages for component in stage} <= set(layout.LOGS)


def test_the_server_is_known_by_every_name_that_a_pod_may_use(tmp_path: Path) -> None:
    certificates.write_all(tmp_path, datetime(2026, 1, 1, tzinfo=UTC))
    server = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    there = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert there == {"127.0.0.1", addresses.GATEWAY, addresses.FIRST_SERVICE}


def test_keys_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    certificates.write_all(tmp_path / "pki")
    keys = list((tmp_path / "pki").glob("*.key"))
    assert len(keys) == 7
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_the_kubelet_client_is_no_client_of_the_api_server(tmp_path: Path) -> None:
    certificates.write_all(tmp_path)
    client = x509.load_pem_x509_certificate((tmp_path / "kubelet-client.crt").read_bytes())
    own = x509.load_pem_x509_certificate((tmp_path / "kubelet-client-ca.crt").read_bytes())
    assert client.issuer == own.subject
    assert "--client-ca-file" in " ".join(
        components.stages(PLAN, Layout(tmp_path))[1][0].command
    ).replace("kubelet-client-ca", "wrong")


def test_only_the_admins_kubeconfig_goes_through_the_proxy() -> None:
    admin = settings.kubeconfig("/ca", "t", "http://127.0.0.1:4000")
    inner = settings.kubeconfig("/ca", "t")
    assert admin["clusters"][0]["cluster"]["proxy-url"] == "http://127.0.0.1:4000"
    assert "proxy-url" not in inner["clusters"][0]["cluster"]


def test_pods_are_kept_from_the_run_directories_of_every_cluster(tmp_path: Path) -> None:
    run_dir = tmp_path / "clusters" / "x"
    run_dir.mkdir(parents=True)
    assert run_dir.parent in settings.secret_folders(Layout(run_dir))


@pytest.mark.parametrize(
    ("node", "capacity", "strategy", "replicas"),
    [
        pytest.param(NodeSpec.gpu("n", 4), {"nvidia.com/gpu": "4"}, "none", "1", id="whole"),
        pytest.param(NodeSpec.mps("n", 2, 4), {"nvidia.com/gpu.shared": "8"}, "mps", "4", id="MPS"),
        pytest.param(
            NodeSpec.time_slicing("n", 1, 2),
            {"nvidia.com/gpu.shared": "2"},
            "time-slicing",
            "2",
            id="time-slicing",
        ),
    ],
)
def test_a_node_shows_its_gpus_as_the_device_plugin_does(
    node: NodeSpec, capacity: dict[str, str], strategy: str, replicas: str
) -> None:
    assert node.capacity == capacity
    assert node.labels["nvidia.com/gpu.sharing-strategy"] == strategy
    assert node.labels["nvidia.com/gpu.replicas"] == replicas


def test_a_node_without_gpus_has_no_gpu_labels() -> None:
    assert NodeSpec.gpu("n", 0) == NodeSpec("n")


def test_the_nodes_file_is_what_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    nodes.write_nodes(file, nodes.gpu_nodes(2, 4))
    assert layout.node_names(file) == ["gpu-0", "gpu-1"]
    assert json.loads(file.read_text())[0]["capacity"] == {"nvidia.com/gpu": "4"}


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two nodes have one name"):
        nodes.write_nodes(tmp_path / "nodes.json", [NodeSpec("a"), NodeSpec("a")])


def a_node(name: str, *, ready: str = "True", taint: str | None = None) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("found", "there"),
    [
        pytest.param([a_node("a"), a_node("b")], True, id="both"),
        pytest.param([a_node("a")], False, id="one is missing"),
        pytest.param([a_node("a"), a_node("b"), a_node("c")], False, id="one too many"),
        pytest.param([a_node("a"), a_node("b", ready="False")], False, id="not ready"),
        pytest.param([a_node("a"), a_node("b", taint=api.NOT_READY)], False, id="tainted"),
        pytest.param([a_node("a"), a_node("b", taint="other")], True, id="another taint"),
    ],
)
def test_nodes_are_there_when_all_and_only_they_are_ready(
    found: list[dict[str, object]], there: bool
) -> None:
    assert api.has_exactly({"items": found}, ["a", "b"]) is there


def test_an_api_server_that_does_not_answer_has_no_nodes() -> None:
    assert api.has_exactly(None, []) is False


def test_a_plan_and_an_outcome_survive_their_files(tmp_path: Path) -> None:
    layout.write(tmp_path / "plan.json", PLAN)
    layout.write(tmp_path / "outcome.json", Outcome("failed", "why"))
    assert layout.read_plan(tmp_path / "plan.json") == PLAN
    assert layout.read_outcome(tmp_path / "outcome.json") == Outcome("failed", "why")
    assert layout.is_run(tmp_path / "plan.json", "r1")
    assert not layout.is_run(tmp_path / "plan.json", "r2")
    assert not layout.is_run(tmp_path / "gone.json", "r1")


def test_the_end_of_a_log_fits_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "etcd.log").write_text("old\n" * 50_000 + "x" * 1000 + "\nlast\n")
    assert Layout(tmp_path).tail("etcd") == "x" * layout.LINE_WIDTH + "... | last"
    assert Layout(tmp_path).tail("agent") == "nothing"


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        pytest.param(Outcome("failed", "etcd is gone"), "etcd is gone", id="said"),
        pytest.param(Outcome("ready", ""), "the local cluster was killed, or", id="not said"),
        pytest.param(Outcome("starting", "etcd"), "it did not get beyond etcd; ", id="early"),
    ],
)
def test_why_a_cluster_is_gone_is_one_sentence(
    tmp_path: Path, outcome: Outcome, sentence: str
) -> None:
    files = Layout(tmp_path)
    layout.write(files.outcome, outcome)
    assert sandbox.obituary(files).startswith(sentence)


def test_a_full_disk_is_why_a_cluster_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Layout(tmp_path)
    layout.write(files.outcome, Outcome("ready", ""))
    monkeypatch.setattr(sandbox, "FULL_BYTES", 10**18)
    assert "is full, so the local cluster has stopped" in sandbox.obituary(files)


def test_a_process_is_told_apart_from_a_later_one_with_its_id() -> None:
    own = processes.find(os.getpid())
    assert own is not None
    assert own.alive
    assert not processes.Process(own.pid, own.started + 1).alive


def test_a_pods_processes_are_found_by_the_agents_notes(tmp_path: Path) -> None:
    """Sandbox 100 runs agent 101, whose container 110 (there 9) has a child; 200 is another's."""
    table = {
        100: pods.Seen(50, (100, 1)),
        101: pods.Seen(100, (101, 2)),
        110: pods.Seen(101, (110, 9, 1)),
        111: pods.Seen(110, (111, 10, 2)),
        200: pods.Seen(51, (200, 9, 1)),
        300: pods.Seen(1, (300,)),
    }
    folder = tmp_path / "pods" / "ns_web_uid-1"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text('{"containers": {"engine": {"pid": 9, "restarts": 0}}}')
    assert pods.containers(table, 100, tmp_path, "ns", "web") == {"engine": 110}
    assert pods.containers(table, 100, tmp_path, "ns", "we") == {}
    assert pods.below(table, 110) == [110, 111]


def test_a_processs_ids_are_read_from_its_status() -> None:
    status = "Name:\tpython\nPPid:\t7\nNSpid:\t110\t9\t1\nSeccomp:\t0\n"
    assert pods.parse(status) == pods.Seen(7, (110, 9, 1))


def test_waiting_ends_with_what_was_seen_last() -> None:
    assert poll.until("something", lambda: 7, seconds=0) == 7
    with pytest.raises(TimeoutError, match="something: not within 0 s; last seen: 0"):
        poll.until("something", lambda: 0, seconds=0, every=0)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        pytest.param(["up", "--name", "../x"], "'../x' is no name for a cluster", id="name"),
        pytest.param(["up", "--nodes", "-1"], "'-1' is no number from 0 to 1000", id="negative"),
        pytest.param(["up", "--gpus", "two"], "'two' is no number from 0 to 64", id="word"),
        pytest.param(["up", "--gpus", "65"], "'65' is no number from 0 to 64", id="too many"),
        pytest.param(["sideways"], "invalid choice: 'sideways'", id="command"),
        pytest.param([], "the following arguments are required: command", id="none"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run(argv)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
