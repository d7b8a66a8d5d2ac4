"""Files of volumes and how they are swapped."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from e2e.agent import nodes, rootfs, volumes
from e2e.agent.api import Api
from e2e.agent.volumes import VolumeError, selected, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

CONFIG: dict[str, Any] = {
    "metadata": {"name": "settings"},
    "data": {"a": "1", "b": "2"},
    "binaryData": {"c": base64.b64encode(b"\x00").decode()},
}


def test_all_keys_or_the_named_ones_become_files() -> None:
    assert selected("ConfigMap", CONFIG, {}, 0o644) == {
        "a": (b"1", 0o644),
        "b": (b"2", 0o644),
        "c": (b"\x00", 0o644),
    }
    items = [{"key": "a", "path": "x/y", "mode": 0o400}]
    assert selected("ConfigMap", CONFIG, {"items": items}, 0o644) == {"x/y": (b"1", 0o400)}


def test_a_named_key_that_is_missing_is_refused_unless_optional() -> None:
    items = [{"key": "z", "path": "z"}]
    with pytest.raises(VolumeError, match="non-existent key: z"):
        selected("ConfigMap", CONFIG, {"items": items}, 0o644)
    assert selected("ConfigMap", CONFIG, {"items": items, "optional": True}, 0o644) == {}


def test_a_new_version_is_one_rename_and_old_names_go(tmp_path: Path) -> None:
    assert write_atomically(tmp_path, {"a": (b"1", 0o644), "d/e": (b"2", 0o600)})
    first = (tmp_path / "..data").readlink()
    assert (tmp_path / "a").read_text() == "1"
    assert (tmp_path / "d" / "e").read_text() == "2"
    assert not write_atomically(tmp_path, {"a": (b"1", 0o644), "d/e": (b"2", 0o600)})
    assert write_atomically(tmp_path, {"a": (b"3", 0o644)})
    assert (tmp_path / "a").read_text() == "3"
    assert (tmp_path / "..data").readlink() != first
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == ["a"]
    assert not (tmp_path / first).exists()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/x", "/etc/x"),
        ("/var/run/secrets", "/run/secrets"),
        ("/loop/up/../x", "/loop/x"),
        ("/../../etc", "/etc"),
        ("/relative/x", "/etc/x"),
        ("/outside/passwd", "/outside-target/passwd"),
    ],
)
def test_a_path_is_resolved_inside_the_container(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "loop").mkdir()
    (tmp_path / "var" / "run").symlink_to("/run")
    (tmp_path / "relative").symlink_to("loop/../etc")
    (tmp_path / "outside").symlink_to("/../outside-target")
    assert rootfs.resolve(str(tmp_path), path) == f"{tmp_path}{expected}"


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/a")
    with pytest.raises(OSError, match="too many symlinks"):
        rootfs.resolve(str(tmp_path), "/a/b")


def test_a_subpath_may_not_lead_out_of_its_volume(tmp_path: Path) -> None:
    api = Api("https://127.0.0.1:1", None, "token")
    store = volumes.Volumes(api, tmp_path / "volumes", {})
    mount = {"name": "v", "mountPath": "/x", "subPath": "../other"}
    with pytest.raises(VolumeError, match="leads out of the volume v"):
        volumes.binds({"volumeMounts": [mount]}, store, {})


def test_a_nodes_file_names_labels_and_capacity() -> None:
    found = nodes.parse('[{"name": "gpu-0", "labels": {"a": "b"}, "capacity": {"cpu": 2}}]')
    assert found["gpu-0"].allocatable["cpu"] == "2"
    assert nodes.all_labels(found["gpu-0"])["kubernetes.io/hostname"] == "gpu-0"
    assert nodes.all_labels(found["gpu-0"])["a"] == "b"
