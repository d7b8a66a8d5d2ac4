"""Fetching and building what the cluster needs: the parts that touch no network."""

import errno
from pathlib import Path

import pytest

from e2e import build, engines, fetch, paths, problem, tools
from e2e.problem import Problem


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"TENANTRY_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c", id="named"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/tenantry", id="of the desktop"),
        pytest.param({"HOME": "/h"}, "/h/.cache/tenantry", id="of the home"),
    ],
)
def test_the_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name in ("TENANTRY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert paths.cache() == Path(folder)


def test_the_binaries_of_other_modules_lie_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = build.folder()
    copies = []
    for module in build.modules():
        copy = tmp_path / module.folder.name
        copy.mkdir()
        for name in ("go.mod", "go.sum"):
            (copy / name).write_bytes((module.folder / name).read_bytes())
        copies.append(build.Module(copy, module.requires))
    monkeypatch.setattr(build, "modules", lambda: tuple(copies))
    assert build.folder() == one
    with (copies[0].folder / "go.sum").open("a") as file:
        file.write("x\n")
    assert build.folder() != one
    assert build.folder().name.startswith(f"{copies[0].version}-")


def test_a_go_mod_without_its_module_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    with pytest.raises(Problem, match=r"requires no k8s\.io/kubernetes; restore the file"):
        _ = build.Module(tmp_path, "k8s.io/kubernetes").version


def test_the_binaries_are_stamped_with_their_version() -> None:
    flags = build.stamps("v1.36.3")
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=36" in flags


def test_the_build_shows_what_it_is_at() -> None:
    said = ["go: downloading k8s.io/api v0.36.3\n", "k8s.io/api/core/v1\n", "internal/abi\n"]
    assert build.progress(said) == "1 modules fetched, 2 packages compiled"


def test_a_folder_of_somebody_elses_is_named() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/x/y")
    assert problem.sentence(error).startswith("/x/y is not ours to write")


def test_a_full_disk_is_said_before_the_work_begins(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"the build needs 1000000000000 MB and \d+ MB are free"):
        fetch.need_room(tmp_path, 10**12, "the build")


def test_a_full_disk_during_the_work_is_named_as_one() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/x/y")
    assert problem.sentence(error) == (
        "the disk is full (writing /x/y); make room and run it again"
    )


def test_a_folder_that_could_not_be_filled_does_not_appear(tmp_path: Path) -> None:
    def fill() -> None:
        with fetch.into(tmp_path / "tool") as scratch:
            (scratch / "half").write_text("x")
            raise Problem("broken off")

    with pytest.raises(Problem, match="broken off"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_tool_that_does_not_run_is_a_problem(tmp_path: Path) -> None:
    tool = tmp_path / "helm"
    tool.write_text("#!/bin/sh\necho no such machine >&2; exit 1\n")
    tool.chmod(0o755)
    with pytest.raises(Problem, match="does not run here: no such machine"):
        tools.version(tool)


def test_of_a_second_vllm_only_the_python_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(requirement: str, target: Path, *options: str) -> None:
        assert (requirement, options) == (f"vllm=={engines.OTHER}", ("--no-cache",))
        for name in ("vllm/v1/request.py", "vllm/_C.abi3.so", "vllm/x.json", "bin/vllm"):
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")

    monkeypatch.setenv("TENANTRY_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch, "unpack", unpack)
    folder = engines.other()
    assert engines.other() == folder
    files = [str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()]
    assert files == ["vllm/v1/request.py"]


def test_a_process_for_a_second_vllm_imports_it_first() -> None:
    environ = engines.environment({"PYTHONPATH": "/mine", "HOME": "/h"}, Path("/other"))
    assert environ == {
        "HOME": "/h",
        "PYTHONPATH": "/other:/mine",
        "VLLM_TARGET_DEVICE": "cpu",
    }


def test_a_second_vllm_that_cannot_be_fetched_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"no-such-package==0 could not be fetched \(.*\); is the"):
        fetch.unpack("no-such-package==0", tmp_path, "--no-cache", "--offline")
