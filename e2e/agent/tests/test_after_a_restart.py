"""What an agent makes of the pods that an earlier one ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.agent.agent import by_age, wipe
from e2e.agent.pods import carry_over
from e2e.agent.status import ContainerState

if TYPE_CHECKING:
    from pathlib import Path


def test_a_container_that_ran_counts_as_restarted() -> None:
    state = ContainerState("c", "i")
    former = {
        "containerID": "processes://x",
        "restartCount": 2,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    carry_over(state, former)
    assert state.restarts == 3
    ended = state.last["terminated"]
    assert (ended["exitCode"], ended["startedAt"]) == (137, "2026-01-01T00:00:00Z")


def test_a_container_that_never_ran_starts_at_zero() -> None:
    state = ContainerState("c", "i")
    carry_over(state, {"restartCount": 0, "state": {"waiting": {}}})
    carry_over(state, None)
    assert (state.restarts, state.last) == (0, {})


def test_nothing_of_the_former_pods_stays(tmp_path: Path) -> None:
    folder = tmp_path / "pods"
    (folder / "a_pod" / "main").mkdir(parents=True)
    (folder / "a_pod" / "main" / "0.log").write_text("old")
    wipe(folder)
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


def _pod(name: str, created: str, phase: str) -> dict[str, Any]:
    meta = {"name": name, "creationTimestamp": created}
    return {"metadata": meta, "status": {"phase": phase}}


def test_pods_that_ran_get_their_devices_before_new_ones() -> None:
    pods = [_pod("new", "1", "Pending"), _pod("b", "2", "Running"), _pod("a", "2", "Running")]
    assert [pod["metadata"]["name"] for pod in sorted(pods, key=by_age)] == ["a", "b", "new"]
