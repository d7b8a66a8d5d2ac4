"""Every process is what its manifest says, apart from what the image map lists.

The command line and the environment of each container's first process, as the kernel has them,
are compared with the pod's manifest. What differs must stand in `e2e/images.yaml`, or be what
every kubelet adds: a host name, a home, the addresses of Services, the numbers of GPUs.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e import build, paths
from e2e.tests import podkit
from e2e.tests.podkit import a_container, a_pod

if TYPE_CHECKING:
    from e2e.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

KUBELETS = re.compile(
    r"HOSTNAME|HOME|PATH|NVIDIA_VISIBLE_DEVICES"
    r"|[A-Z0-9_]+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|[A-Z0-9_]+_PORT(_\d+_(TCP|UDP)(_[A-Z]+)?)?"
)
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def entry_of(image: str) -> dict[str, Any]:
    """The image map's entry, with its placeholders filled in; read here without the agent."""
    text = (paths.checkout() / "e2e" / "images.yaml").read_text("utf-8")
    places = {
        "venv": paths.venv(),
        "bin": BINARIES,
        "checkout": paths.checkout(),
        "models": paths.cache() / "models",
    }
    for name, place in places.items():
        text = text.replace("{" + name + "}", str(place))
    found: dict[str, Any] = [
        entry for entry in yaml.safe_load(text) if fnmatchcase(image, entry["image"])
    ][-1]
    return found


def expected_words(container: dict[str, Any], values: dict[str, str]) -> list[str]:
    """The command line: the manifest's, or the image's, changed as the map lists."""
    entry = entry_of(container["image"])
    given = container.get("command") or entry["entrypoint"]
    words = [*given, *container.get("args", [])]
    words = [re.sub(r"\$\((\w+)\)", lambda match: values[match.group(1)], word) for word in words]
    kept = [entry.get("replace", {}).get(word, word) for word in words]
    return [*(word for word in kept if word not in entry.get("drop", [])), *entry.get("append", [])]


def differences(pod: dict[str, Any], container: dict[str, Any], process: Path) -> list[str]:
    """What of a process neither the manifest nor the map explains."""
    words = _split(process / "cmdline")
    values = dict(word.split("=", 1) for word in _split(process / "environ"))
    wanted = expected_words(container, values)
    found = []
    # The kernel puts the interpreter of a script in front, and the path that PATH led to.
    if words[-len(wanted) + 1 :] != wanted[1:] and len(wanted) > 1:
        found.append(f"command line {words}, not {wanted}")
    if Path(words[-len(wanted)]).name != Path(wanted[0]).name or len(words) > len(wanted) + 1:
        found.append(f"program {words}, not {wanted}")
    return found + _unexplained(pod, container, values)


def _unexplained(
    pod: dict[str, Any], container: dict[str, Any], values: dict[str, str]
) -> list[str]:
    entry = entry_of(container["image"])
    ours = {name: str(value) for name, value in entry.get("env", {}).items()}
    ours["PATH"] = ":".join([*entry.get("path", []), SEARCH])
    manifest = {each["name"]: each for each in container.get("env", [])}
    found = [f"{name} is missing" for name in (*manifest, *ours) if name not in values]
    for name, value in values.items():
        if name in manifest:
            stated = _stated(manifest[name], pod)
            if stated is not None and stated != value:
                found.append(f"{name}={value}, not {stated}")
        elif name in ours:
            if ours[name] != value:
                found.append(f"{name}={value}, not {ours[name]} of the map")
        elif not KUBELETS.fullmatch(name):
            found.append(f"{name}={value} is in neither")
    return found


def _stated(entry: dict[str, Any], pod: dict[str, Any]) -> str | None:
    """A variable's value as the manifest states it; None where it refers to something else."""
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    if path is not None:
        value: Any = pod
        for step in path.split("."):
            value = value[step]
        return str(value)
    text = str(entry.get("value") or "")
    return None if "valueFrom" in entry or "$(" in text else text


def _split(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\0")[:-1]


BINARIES = build.folder()


def _all_differences(cluster: Cluster, *where: str) -> tuple[int, list[str]]:
    """How many containers were compared, and what was found."""
    compared, found = 0, []
    for pod in json.loads(cluster.kubectl("get", "pods", *where, "-ojson"))["items"]:
        meta = pod["metadata"]
        running = cluster.containers(meta["namespace"], meta["name"])
        for container in pod["spec"]["containers"]:
            process = Path(f"/proc/{running[container['name']]}")
            compared += 1
            label = f"{meta['namespace']}/{meta['name']}/{container['name']}"
            found += [f"{label}: {each}" for each in differences(pod, container, process)]
    return compared, found


def test_the_processes_of_the_chart_are_those_of_its_manifests(installed: Cluster) -> None:
    compared, found = _all_differences(installed, "-ntenantry-system")
    assert found == []
    assert compared >= 3


def test_processes_with_arguments_and_variables_of_every_kind_are_as_their_manifests_say(
    cluster: Cluster, namespace: str
) -> None:
    field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    variables = [
        {"name": "PLAIN", "value": "a b"},
        {"name": "NAMESPACE", "valueFrom": field},
        {"name": "PATH_LIKE", "value": "$(PLAIN)/$(NAMESPACE)"},
    ]
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    podkit.run_ready(
        cluster,
        a_pod(
            namespace,
            "both",
            a_container(image=podkit.ECHO, args=["8081"], env=variables, resources=gpu),
            a_container("shell", command=["sh", "-c", "sleep 1000", "$(PLAIN)"], env=variables),
        ),
    )
    compared, found = _all_differences(cluster, f"-n{namespace}")
    assert (compared, found) == (2, [])
    shell = Path(f"/proc/{cluster.containers(namespace, 'both')['shell']}")
    assert _split(shell / "cmdline")[-1] == "a b"
    assert f"PATH_LIKE=a b/{namespace}" in _split(shell / "environ")


def test_a_difference_that_the_map_does_not_list_is_found(cluster: Cluster, namespace: str) -> None:
    manifest = a_pod(namespace, "echo", a_container(image=podkit.ECHO, args=["8081"]))
    seen = podkit.run_ready(cluster, manifest)
    process = Path(f"/proc/{cluster.containers(namespace, 'echo')['main']}")
    container = seen["spec"]["containers"][0]
    assert differences(seen, container, process) == []
    for changed in (
        container | {"args": ["8082"]},
        container | {"args": []},
        container | {"env": [{"name": "MISSING", "value": "x"}]},
        container | {"env": [{"name": "HOSTNAME", "value": "x"}]},
        container | {"image": podkit.IDLE},
    ):
        assert differences(seen, changed, process) != []
