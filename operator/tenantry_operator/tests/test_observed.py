"""Manifests from the API server, read into values."""

from typing import Any

import pytest

from tenantry_operator.observed import Pod, Rollout, pods, rollout
from tenantry_operator.tests.builders import a_pod_manifest


def _one(**status: Any) -> Pod:
    (pod,) = pods([a_pod_manifest(**status)], "chat")
    return pod


def test_a_serving_pod_is_read() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "True"},
    ]
    assert _one(phase="Running", podIP="10.0.0.7", conditions=conditions) == Pod(
        name="chat-abc-1",
        uid="uid-of-chat-abc-1",
        address="10.0.0.7",
        ready=True,
        running=True,
        placed=True,
    )


def test_a_pod_that_no_node_takes_says_why() -> None:
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available",
    }
    assert _one(phase="Pending", conditions=[waits]).unschedulable == "0/2 nodes are available"


@pytest.mark.parametrize(
    ("waiting", "trouble"),
    [
        pytest.param({"reason": "ContainerCreating"}, "", id="a start is no trouble"),
        pytest.param(
            {"reason": "ErrImageNeverPull", "message": "no such image"},
            "pod chat-abc-1, container engine: ErrImageNeverPull: no such image",
            id="an image that is not there",
        ),
        pytest.param(
            {"reason": "CrashLoopBackOff"},
            "pod chat-abc-1, container engine: CrashLoopBackOff",
            id="a container that ends well again and again",
        ),
    ],
)
def test_a_container_that_does_not_start_says_why(waiting: dict[str, str], trouble: str) -> None:
    status = [{"name": "engine", "state": {"waiting": waiting}}]
    found = _one(containerStatuses=status)
    assert (found.trouble, found.stuck) == (trouble, bool(trouble))


FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
LOOPS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
LOG = "See kubectl logs -n llm chat-abc-1 -c engine"


@pytest.mark.parametrize(
    ("container", "trouble", "stuck"),
    [
        pytest.param({"state": FAILED}, f"Error, exit code 1. {LOG}", False, id="ended"),
        pytest.param(
            {"state": LOOPS, "lastState": FAILED, "restartCount": 1},
            f"Error, exit code 1, started again 1 time. {LOG}",
            False,
            id="kept waiting after the second",
        ),
        pytest.param(
            {"state": {"running": {}}, "lastState": FAILED, "restartCount": 4},
            f"Error, exit code 1, started again 4 times. {LOG} --previous",
            True,
            id="runs for the fifth time",
        ),
        pytest.param(
            {"state": {"running": {}}, "lastState": FAILED, "restartCount": 4, "ready": True},
            "",
            False,
            id="has recovered",
        ),
        pytest.param(
            {"state": {"terminated": {"exitCode": 0}}, "lastState": FAILED, "restartCount": 1},
            "",
            False,
            id="has done its work at last",
        ),
    ],
)
def test_a_container_that_does_not_stay_says_where_to_look(
    container: dict[str, Any], trouble: str, stuck: bool
) -> None:
    found = _one(containerStatuses=[{"name": "engine", **container}])
    where = "pod chat-abc-1, container engine: "
    assert (found.trouble, found.stuck) == (where + trouble if trouble else "", stuck)


def _stranger(**changes: Any) -> dict[str, Any]:
    found = a_pod_manifest("stranger")
    found["metadata"].update(changes)
    return found


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(_stranger(ownerReferences=[]), id="a bare pod with our labels"),
        pytest.param(
            _stranger(ownerReferences=[{"kind": "Job", "name": "chat-abc", "controller": True}]),
            id="a pod of a Job",
        ),
        pytest.param(
            _stranger(
                ownerReferences=[{"kind": "ReplicaSet", "name": "chat-2-abc", "controller": True}]
            ),
            id="a pod of another Deployment",
        ),
        pytest.param(_stranger(labels={"tenantry.dev/policy": "chat"}), id="only the label"),
    ],
)
def test_a_strangers_pod_is_none_of_ours(stranger: dict[str, Any]) -> None:
    found = pods([stranger, a_pod_manifest("chat-abc-2")], "chat")
    assert [pod.name for pod in found] == ["chat-abc-2"]


def _deployment(generation: int = 2, **status: Any) -> dict[str, Any]:
    counts = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, **counts, **status},
    }


@pytest.mark.parametrize(
    ("deployment", "done"),
    [
        pytest.param(_deployment(), True, id="all up to date and available"),
        pytest.param(_deployment(generation=3), False, id="the controller is behind"),
        pytest.param(_deployment(updatedReplicas=1), False, id="one of the old template"),
        pytest.param(_deployment(availableReplicas=1), False, id="one does not answer"),
        pytest.param(_deployment(replicas=3), False, id="one too many"),
        pytest.param(None, False, id="no Deployment"),
    ],
)
def test_a_rollout_is_done_when_every_engine_is_new_and_answers(
    deployment: dict[str, Any] | None, done: bool
) -> None:
    assert rollout(deployment).done is done


def test_a_rollout_that_is_late_says_so() -> None:
    late = {"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
    assert rollout(_deployment(conditions=[late])).late == "timed out"


def test_a_pod_that_may_not_be_made_says_so() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    assert rollout(_deployment(conditions=[failed])).refused == "exceeded quota"
    assert Rollout().refused == ""
