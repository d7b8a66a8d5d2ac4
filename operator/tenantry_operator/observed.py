"""What was seen of a policy's children: manifests from the API server, read into values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import names
from tenantry_operator.desired.labels import selector

# Waiting for these is part of every start; every other reason is trouble.
_HARMLESS = frozenset({"", "ContainerCreating", "PodInitializing"})
GIVEN_UP = 3
"""Starts again after which a container that fails is not expected to recover by itself."""


@dataclass(frozen=True)
class Pod:
    """One engine pod. `trouble` and `unschedulable` are sentences, empty where there is none;
    `stuck`: the trouble does not pass by itself."""

    name: str
    uid: str
    address: str = ""
    ready: bool = False
    running: bool = False
    terminating: bool = False
    placed: bool = False
    told_hash: str = ""
    trouble: str = ""
    stuck: bool = False
    unschedulable: str = ""


@dataclass(frozen=True)
class Rollout:
    """How far a Deployment is."""

    wanted: int = 0
    current: int = 0
    updated: int = 0
    available: int = 0
    ready: int = 0
    seen: bool = False  # the controller has seen this generation
    late: str = ""  # the controller's message when the deadline is over
    refused: str = ""  # why no pod could be made: a quota, a missing PriorityClass

    @property
    def done(self) -> bool:
        """Whether every engine is of the present template and answers, and no other is left."""
        return self.seen and self.updated == self.current == self.available == self.wanted


def pods(manifests: Iterable[Mapping[str, Any]], deployment: str) -> tuple[Pod, ...]:
    """The pods that belong to the Deployment of that name, in the order of their names.

    A stranger's pod with the policy's label is none of ours: ours are controlled by a ReplicaSet
    that is named as the Deployment and the template's hash.
    """
    found = (_pod(item) for item in manifests if _belongs(item, deployment))
    return tuple(sorted(found, key=lambda pod: pod.name))


def rollout(deployment: Mapping[str, Any] | None) -> Rollout:
    """The roll-out of a Deployment; None is one that has not begun."""
    if deployment is None:
        return Rollout()
    status = deployment.get("status", {})
    return Rollout(
        wanted=deployment["spec"].get("replicas", 1),
        current=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        available=status.get("availableReplicas", 0),
        ready=status.get("readyReplicas", 0),
        seen=status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0),
        late=_late(status.get("conditions", [])),
        refused=_refused(status.get("conditions", [])),
    )


def _late(conditions: Iterable[Mapping[str, Any]]) -> str:
    found = _condition(conditions, "Progressing")
    late = found.get("reason") == "ProgressDeadlineExceeded"
    return str(found.get("message", "")) if late else ""


def _refused(conditions: Iterable[Mapping[str, Any]]) -> str:
    found = _condition(conditions, "ReplicaFailure")
    return str(found.get("message", "")) if found.get("status") == "True" else ""


def _belongs(manifest: Mapping[str, Any], deployment: str) -> bool:
    meta = manifest["metadata"]
    labels = meta.get("labels", {})
    if any(labels.get(key) != value for key, value in selector(deployment).items()):
        return False
    replica_set = f"{deployment}-{labels.get('pod-template-hash', '')}"
    return any(
        owner.get("controller") and owner["kind"] == "ReplicaSet" and owner["name"] == replica_set
        for owner in meta.get("ownerReferences", [])
    )


def _pod(manifest: Mapping[str, Any]) -> Pod:
    meta, status = manifest["metadata"], manifest.get("status", {})
    conditions = status.get("conditions", [])
    placed = _condition(conditions, "PodScheduled")
    trouble, stuck = _trouble(meta, status)
    waits = placed.get("status") == "False" and placed.get("reason") == "Unschedulable"
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        address=status.get("podIP", ""),
        ready=_condition(conditions, "Ready").get("status") == "True",
        running=status.get("phase") == "Running",
        terminating="deletionTimestamp" in meta,
        placed=placed.get("status") == "True",
        told_hash=meta.get("annotations", {}).get(names.ANNOTATION_POLICY_HASH, ""),
        trouble=trouble,
        stuck=stuck,
        unschedulable=str(placed.get("message", "")) if waits else "",
    )


def _trouble(meta: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, bool]:
    """Why a container does not start, or does not stay, in a sentence that says what to do; and
    whether that will not pass by itself."""
    lists = (status.get("initContainerStatuses", []), status.get("containerStatuses", []))
    for container in (item for group in lists for item in group):
        sentence = _crash(meta, container) or _hold_up(container)
        if sentence and not container.get("ready"):
            held = not _crash(meta, container)
            stuck = held or container.get("restartCount", 0) >= GIVEN_UP
            return f"pod {meta['name']}, container {container['name']}: {sentence}", stuck
    return "", False


def _crash(meta: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """How a container has failed, and the command that shows why."""
    state, last = container.get("state", {}), container.get("lastState", {})
    ended = state.get("terminated") or last.get("terminated") or {}
    if not ended.get("exitCode"):
        return ""
    count = container.get("restartCount", 0)
    again = f", started again {count} time{'s' * (count > 1)}" if count else ""
    # One that runs again has another log by now.
    before = " --previous" if "running" in state else ""
    where = f"-n {meta['namespace']} {meta['name']} -c {container['name']}{before}"
    reason = ended.get("reason", "Error")
    return f"{reason}, exit code {ended['exitCode']}{again}. See kubectl logs {where}"


def _hold_up(container: Mapping[str, Any]) -> str:
    """Why the kubelet does not start a container."""
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _HARMLESS:
        return ""
    return f"{reason}: {message}" if message else str(reason)


def _condition(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    return next((item for item in conditions if item.get("type") == kind), {})
