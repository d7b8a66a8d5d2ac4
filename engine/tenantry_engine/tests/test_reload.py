import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry_engine import config as configuration
from tenantry_engine import reload
from tenantry_engine.config import EngineConfig
from tenantry_engine.tests.policies import a_text


class Watched:
    """A policy file, a watch of it, and a clock that the test turns."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "policy.json"
        self.path.write_text(a_text())
        self.said: list[str] = []
        self.now = 0.0
        environ = {"TENANTRY_POLICY": str(self.path)}
        config = configuration.load(environ, reload.read)
        self.watch = reload.watch(environ, config, self.said.append)

    def after(self, seconds: float) -> EngineConfig | None:
        self.now += seconds
        return self.watch.poll(self.now)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def rewritten(path: Path, text: str) -> None:
    path.write_text(text)


def replaced(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


@pytest.mark.parametrize("write", [rewritten, replaced])
def test_a_changed_file_is_read_again(watched: Watched, write: Callable[[Path, str], None]) -> None:
    assert watched.after(1) is None
    write(watched.path, a_text({"gold": 1, "free": 300}))
    changed = watched.after(1)
    assert changed is not None
    assert changed.weights == {"gold": 1.0, "free": 300.0}
    assert watched.watch.config is changed
    assert changed.hash in watched.said[-1]


def test_a_config_map_volume_that_swaps_its_link_is_seen(tmp_path: Path) -> None:
    for name, tenants in (("..a", {"gold": 3}), ("..b", {"gold": 4})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.json").write_text(a_text(tenants))
        os.utime(tmp_path / name / "policy.json", (1, 1))
    (tmp_path / "..data").symlink_to("..a")
    (tmp_path / "policy.json").symlink_to("..data/policy.json")
    environ = {"TENANTRY_POLICY": str(tmp_path / "policy.json")}
    watch = reload.watch(environ, configuration.load(environ, reload.read), lambda _: None)
    assert watch.poll(0) is None
    (tmp_path / "..new").symlink_to("..b")
    (tmp_path / "..new").rename(tmp_path / "..data")
    changed = watch.poll(1)
    assert changed is not None
    assert changed.weight_of("gold") == 4.0


def test_the_file_is_looked_at_once_a_second_at_most(watched: Watched) -> None:
    watched.after(1)
    watched.path.write_text(a_text({"gold": 7}))
    assert watched.after(0.5) is None
    assert watched.after(0.4) is None
    assert watched.after(0.2) is not None


@pytest.mark.parametrize("text", ["{", "spec: {}", a_text(weight=-1)])
def test_a_bad_file_leaves_the_old_policy_in_force_and_says_so_once(
    watched: Watched, text: str
) -> None:
    before = watched.watch.config
    watched.path.write_text(text)
    assert [watched.after(1) for _ in range(5)] == [None] * 5
    assert watched.watch.config is before
    assert len(watched.said) == 1
    assert "stays in force" in watched.said[0]


def test_each_version_of_a_bad_file_is_named(watched: Watched) -> None:
    watched.path.write_text("{")
    watched.after(1)
    watched.path.write_text("{{")
    watched.after(1)
    assert len(watched.said) == 2


def test_a_file_that_goes_leaves_the_policy_in_force_until_it_is_back(watched: Watched) -> None:
    watched.after(1)
    watched.path.unlink()
    assert watched.after(1) is None
    assert watched.after(1) is None
    assert len(watched.said) == 1
    watched.path.write_text(a_text({"gold": 9}))
    changed = watched.after(1)
    assert changed is not None
    assert changed.weight_of("gold") == 9.0


def test_a_touched_file_with_the_same_policy_is_no_change(watched: Watched) -> None:
    watched.after(1)
    watched.path.write_text(a_text().replace(" ", "  "))
    assert watched.after(1) is None
    assert watched.said == []


def test_a_change_between_reading_and_watching_is_not_missed(watched: Watched) -> None:
    watched.path.write_text(a_text({"gold": 8}))
    changed = watched.after(0)
    assert changed is not None
    assert changed.weight_of("gold") == 8.0


def test_without_a_file_nothing_ever_changes() -> None:
    environ = {"VLLM_SCHEDULER_TENANT_SHARE": "gold=2"}
    config = configuration.load(environ, reload.read)
    watch = reload.watch(environ, config, lambda _: None)
    assert [watch.poll(now) for now in range(3)] == [None] * 3
