"""What a container sees: its volumes, its account, its identity, its file system."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e import paths
from e2e.poll import until
from e2e.tests import podkit
from e2e.tests.podkit import a_container, a_pod

if TYPE_CHECKING:
    from e2e.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

IN_CLUSTER = """
cd /var/run/secrets/kubernetes.io/serviceaccount
curl -s --cacert ca.crt -H "Authorization: Bearer $(cat token)" \
  https://kubernetes.default.svc/api/v1/namespaces/$(cat namespace)/$0
"""


def a_config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def mounted(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


def test_a_config_map_is_refreshed_on_a_pod_update_and_not_before(
    cluster: Cluster, namespace: str
) -> None:
    podkit.apply(cluster, a_config_map(namespace, "settings", key="old"))
    manifest = a_pod(
        namespace,
        "reader",
        a_container(volumeMounts=[mounted("settings", "/etc/settings", readOnly=True)]),
        volumes=[{"name": "settings", "configMap": {"name": "settings"}}],
    )
    podkit.run_ready(cluster, manifest)
    podkit.apply(cluster, a_config_map(namespace, "settings", key="new"))
    # Nothing is to happen: an agent that copied at once would need far less time than this.
    time.sleep(3)
    read = "cat /etc/settings/key; readlink /etc/settings/key"
    assert podkit.inside(cluster, namespace, "reader", read) == "old..data/key\n"
    cluster.kubectl("annotate", "pod", "reader", f"-n{namespace}", "poke=1")
    until(
        "the new text",
        lambda: podkit.inside(cluster, namespace, "reader", "cat /etc/settings/key") == "new",
        seconds=10,
    )
    assert podkit.state(cluster, namespace, "reader")["restartCount"] == 0


def test_a_pod_waits_for_a_config_map_that_is_not_there_yet(
    cluster: Cluster, namespace: str
) -> None:
    manifest = a_pod(
        namespace,
        "patient",
        a_container(volumeMounts=[mounted("settings", "/etc/settings")]),
        volumes=[{"name": "settings", "configMap": {"name": "later"}}],
    )
    podkit.apply(cluster, manifest)
    podkit.wait_for(cluster, namespace, "patient", podkit.waits_with("ContainerCreating"))
    until(
        "an event",
        lambda: "FailedMount" in cluster.kubectl("get", "events", f"-n{namespace}"),
    )
    podkit.apply(cluster, a_config_map(namespace, "later", key="here"))
    assert podkit.wait_for(cluster, namespace, "patient", podkit.is_ready)


def test_secrets_sub_paths_and_the_downward_api_are_files(cluster: Cluster, namespace: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "namespace": namespace},
        "stringData": {"token": "s3cret", "other": "x"},
    }
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    manifest = a_pod(
        namespace,
        "files",
        a_container(
            volumeMounts=[
                mounted("key", "/keys"),
                mounted("key", "/etc/one-key", subPath="token"),
                mounted("about", "/about"),
            ],
        ),
        volumes=[
            {
                "name": "key",
                "secret": {"secretName": "key", "items": [{"key": "token", "path": "token"}]},
            },
            {"name": "about", "downwardAPI": {"items": [labels]}},
        ],
    )
    podkit.apply(cluster, secret)
    podkit.run_ready(cluster, manifest)
    script = "ls /keys; cat /keys/token /etc/one-key /about/labels"
    expected = 'token\ns3crets3cretapp="files"'
    assert podkit.inside(cluster, namespace, "files", script) == expected


def test_an_empty_dir_is_shared_by_the_containers_and_survives_a_restart(
    cluster: Cluster, namespace: str
) -> None:
    mounts = [mounted("disk", "/disk"), mounted("memory", "/dev/shm")]  # noqa: S108
    manifest = a_pod(
        namespace,
        "shared",
        a_container("main", volumeMounts=mounts),
        a_container("other", volumeMounts=mounts),
        volumes=[
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
    )
    podkit.run_ready(cluster, manifest)
    other = ["exec", "shared", f"-n{namespace}", "-cother", "--", "sh", "-c"]
    cluster.kubectl(*other, "echo a > /disk/a; echo b > /dev/shm/b")
    # The container may be gone before kubectl hears how the command ended.
    cluster.kubectl(*other, "kill -TERM 1", check=False)
    until(
        "a restart",
        lambda: podkit.state(cluster, namespace, "shared", "other").get("restartCount"),
    )
    podkit.wait_for(cluster, namespace, "shared", podkit.is_ready)
    for container in ("main", "other"):
        read = ("sh", "-c", "cat /disk/a /dev/shm/b; stat -f -c %T /dev/shm")
        seen = cluster.kubectl("exec", "shared", f"-n{namespace}", f"-c{container}", "--", *read)
        assert seen == "a\nb\ntmpfs\n"


def test_a_volume_over_the_checkout_hides_neither_the_programs_nor_uncovers_secrets(
    cluster: Cluster, namespace: str
) -> None:
    above = paths.checkout().parent
    manifest = a_pod(
        namespace,
        "covered",
        a_container("main", volumeMounts=[mounted("over", str(above))]),
        volumes=[{"name": "over", "emptyDir": {}}],
    )
    podkit.run_ready(cluster, manifest)
    listing = f"ls {above}; ls -A {cluster.run_dir.parent}"
    assert podkit.inside(cluster, namespace, "covered", listing) == f"{paths.checkout().name}\n"


def test_the_account_of_a_pod_works_in_the_cluster_with_its_own_rights_only(
    cluster: Cluster, namespace: str
) -> None:
    cluster.kubectl("create", "role", "reader", "--verb=list", "--resource=pods", f"-n{namespace}")
    account = f"--serviceaccount={namespace}:default"
    cluster.kubectl("create", "rolebinding", "reader", "--role=reader", account, f"-n{namespace}")
    podkit.run_ready(cluster, a_pod(namespace, "caller"))

    def ask(resource: str) -> dict[str, Any]:
        command = ("sh", "-c", IN_CLUSTER, resource)
        text = cluster.kubectl("exec", "caller", f"-n{namespace}", "--", *command)
        found: dict[str, Any] = json.loads(text)
        return found

    assert [item["metadata"]["name"] for item in ask("pods")["items"]] == ["caller"]
    assert ask("secrets")["code"] == 403
    claims = "cut -d. -f2 /var/run/secrets/kubernetes.io/serviceaccount/token | tr _- /+"
    decode = f"({claims}; echo ==) | tr -d '\\n' | base64 -d 2>/dev/null"
    bound = json.loads(podkit.inside(cluster, namespace, "caller", decode + " || true"))
    uid = podkit.pod(cluster, namespace, "caller")["metadata"]["uid"]
    assert bound["kubernetes.io"]["pod"] == {"name": "caller", "uid": uid}


def test_no_account_is_mounted_where_the_pod_does_not_want_one(
    cluster: Cluster, namespace: str
) -> None:
    podkit.run_ready(cluster, a_pod(namespace, "nobody", automountServiceAccountToken=False))
    assert podkit.inside(cluster, namespace, "nobody", "ls /run") == ""


def test_no_pod_sees_the_administrators_files_or_the_agents_environment(
    cluster: Cluster, namespace: str
) -> None:
    podkit.run_ready(cluster, a_pod(namespace, "curious"))
    run_dir, home = cluster.run_dir, Path.home() / ".kube"
    listing = f"ls -A {run_dir} 2>/dev/null; ls -A {run_dir.parent}; ls -A {home}"
    assert podkit.inside(cluster, namespace, "curious", listing) == ""
    secret = json.loads((run_dir / "agent.json").read_text("utf-8"))["token"]
    assert secret in cluster.kubeconfig.read_text("utf-8")
    places = f"{run_dir.parent.parent} {home} /etc /tmp /var/tmp /run /dev/shm /proc/1/environ"
    search = f"grep -rlsFf - {places}; true"
    command = ["exec", "-i", "curious", f"-n{namespace}", "--", "sh", "-c", search]
    assert cluster.kubectl(*command, stdin=secret) == ""
    inherited = "tr '\\0' '\\n' < /proc/1/environ | grep -e ^KUBECONFIG -e ^TENANTRY -e ^XDG; true"
    assert podkit.inside(cluster, namespace, "curious", inherited) == ""


def test_a_pod_has_a_process_table_a_host_name_and_an_address_of_its_own(
    cluster: Cluster, namespace: str
) -> None:
    seen = podkit.run_ready(cluster, a_pod(namespace, "alone"))
    script = "ls -d /proc/[0-9]* | head -1; hostname; hostname -I; cat /proc/1/comm"
    words = podkit.inside(cluster, namespace, "alone", script).split()
    assert words[:3] == ["/proc/1", "alone", seen["status"]["podIP"]]
    assert seen["status"]["podIP"].startswith("10.244.")


@pytest.mark.parametrize("uid", [0, 1000, 65532])
def test_a_container_runs_as_the_identity_that_it_asks_for(
    cluster: Cluster, namespace: str, uid: int
) -> None:
    security = {
        "runAsUser": uid,
        "runAsGroup": 65532,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    manifest = a_pod(namespace, "someone", a_container(image=podkit.ECHO, securityContext=security))
    podkit.run_ready(cluster, manifest)
    script = "id -u; id -g; grep -e CapEff -e NoNewPrivs /proc/self/status; touch /tmp/x; echo ok"
    words = podkit.inside(cluster, namespace, "someone", script).split()
    assert words[:2] == [str(uid), "65532"]
    assert (words[-2], words[-1]) == ("1", "ok")
    logs = cluster.kubectl("logs", "someone", f"-n{namespace}")
    assert "denied" not in logs.lower()
    assert "listening" in logs


def test_a_read_only_root_is_read_only_except_for_volumes(cluster: Cluster, namespace: str) -> None:
    container = a_container(
        securityContext={"readOnlyRootFilesystem": True, "runAsUser": 65532},
        volumeMounts=[mounted("scratch", "/scratch")],
    )
    manifest = a_pod(namespace, "sealed", container, volumes=[{"name": "scratch", "emptyDir": {}}])
    podkit.run_ready(cluster, manifest)
    script = "for d in / /usr /tmp /run /etc /scratch; do touch $d/x 2>/dev/null && echo $d; done"
    assert podkit.inside(cluster, namespace, "sealed", script + "; true") == "/scratch\n"


def test_what_a_container_writes_reaches_neither_the_machine_nor_another_pod(
    cluster: Cluster, namespace: str
) -> None:
    for name in ("one", "two"):
        podkit.run_ready(cluster, a_pod(namespace, name))
    podkit.inside(cluster, namespace, "one", "touch /usr/marker-of-one /etc/marker-of-one")
    script = "ls /usr/marker-of-one /etc/marker-of-one 2>/dev/null; true"
    assert podkit.inside(cluster, namespace, "two", script) == ""
    assert cluster.run_inside(["sh", "-c", script]).stdout == ""


def test_run_as_non_root_refuses_a_root_image(cluster: Cluster, namespace: str) -> None:
    security = {"runAsNonRoot": True, "runAsUser": 0}
    podkit.apply(cluster, a_pod(namespace, "root", a_container(securityContext=security)))
    assert podkit.wait_for(
        cluster, namespace, "root", podkit.waits_with("CreateContainerConfigError")
    )
