"""What a pod's status says for each state of its containers."""

from __future__ import annotations

import pytest

from e2e.agent import status
from e2e.agent.status import ContainerState, View

NOW = "2026-01-01T00:00:00Z"


def waiting() -> ContainerState:
    return ContainerState("c", "i")


def running(*, ready: bool = True) -> ContainerState:
    return ContainerState("c", "i", state={"running": {}}, ready=ready, started=True)


def ended(code: int) -> ContainerState:
    return ContainerState("c", "i", state=status.terminated(code, NOW, NOW))


def crashing() -> ContainerState:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    return ContainerState("c", "i", state=state, last=status.terminated(1, NOW, NOW))


def sidecar(*, started: bool) -> ContainerState:
    return ContainerState("s", "i", started=started, ready=started, is_sidecar=True)


def view(
    main: list[ContainerState],
    init: list[ContainerState] | None = None,
    policy: str = "Always",
    *,
    terminating: bool = False,
) -> View:
    return View(main, init or [], policy, terminating)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(view([waiting()]), "Pending", id="not started"),
        pytest.param(view([running(), waiting()]), "Pending", id="one not started"),
        pytest.param(view([running()]), "Running", id="runs"),
        pytest.param(view([crashing()]), "Running", id="in back-off"),
        pytest.param(view([running()], [ended(0)]), "Running", id="runs after init"),
        pytest.param(view([waiting()], [running()]), "Pending", id="init runs"),
        pytest.param(view([waiting()], [ended(1)], "Never"), "Failed", id="init failed for good"),
        pytest.param(view([waiting()], [ended(1)]), "Pending", id="init starts again"),
        pytest.param(view([waiting()], [sidecar(started=False)]), "Pending", id="sidecar starts"),
        pytest.param(view([ended(0)], policy="Never"), "Succeeded", id="done"),
        pytest.param(view([ended(0), ended(1)], policy="Never"), "Failed", id="one failed"),
        pytest.param(view([ended(1), running()], policy="Never"), "Running", id="one still runs"),
        pytest.param(view([ended(0)], policy="OnFailure"), "Succeeded", id="done on failure"),
        pytest.param(view([ended(1)], policy="OnFailure"), "Running", id="starts again"),
        pytest.param(view([ended(143)], terminating=True), "Failed", id="stopped by deletion"),
    ],
)
def test_the_phase_follows_the_containers(seen: View, expected: str) -> None:
    assert status.phase(seen) == expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view([running()]), True),
        (view([running(ready=False)]), False),
        (view([running(), crashing()]), False),
        (view([running()], [sidecar(started=True)]), True),
        (view([ended(0)], policy="Never"), False),
    ],
)
def test_a_pod_is_ready_when_all_of_it_is(seen: View, expected: bool) -> None:
    assert status.conditions(seen, networked=True)["Ready"][0] is expected


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = status.condition_list({"Ready": (False, "x")}, {}, "t1")
    second = status.condition_list({"Ready": (False, "y")}, first, "t2")
    third = status.condition_list({"Ready": (True, "")}, second, "t3")
    times = [each["Ready"]["lastTransitionTime"] for each in (first, second, third)]
    assert times == ["t1", "t1", "t3"]


def test_a_signal_is_told_by_number() -> None:
    ended_by_kill = status.terminated(137, NOW, NOW)["terminated"]
    assert (ended_by_kill["reason"], ended_by_kill["signal"]) == ("Error", 9)
    assert status.terminated(0, NOW, NOW)["terminated"]["reason"] == "Completed"
