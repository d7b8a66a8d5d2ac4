"""What the agent says about a pod: container states in, `status` of the pod out. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]
CREATING: Object = {"waiting": {"reason": "ContainerCreating"}}
INITIALIZING: Object = {"waiting": {"reason": "PodInitializing"}}


@dataclass
class ContainerState:
    """One container as the API shows it. state, last: `ContainerState` objects of the API."""

    name: str
    image: str
    state: Object = field(default_factory=lambda: dict(CREATING))
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False
    identifier: str = ""
    is_sidecar: bool = False

    @property
    def running(self) -> bool:
        """Whether its program runs now."""
        return "running" in self.state

    @property
    def stopped(self) -> bool:
        """Whether its program has run and ended; one in back-off has."""
        return "terminated" in self.state or ("waiting" in self.state and bool(self.last))

    @property
    def exit_code(self) -> int:
        """How it ended last; 0 where it never did."""
        ended = self.state.get("terminated") or self.last.get("terminated") or {}
        return int(ended.get("exitCode", 0))

    def document(self) -> Object:
        """A `ContainerStatus`."""
        found: Object = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image if self.identifier else "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last,
        }
        if self.identifier:
            found["containerID"] = f"processes://{self.identifier}"
        return found


def terminated(code: int, started_at: str, finished_at: str, message: str = "") -> Object:
    """The state of a container that has ended."""
    ended: Object = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": started_at,
        "finishedAt": finished_at,
    }
    if code > 128:
        ended["signal"] = code - 128
    if message:
        ended["message"] = message
    return {"terminated": ended}


@dataclass(frozen=True)
class View:
    """A pod at one moment."""

    main: Sequence[ContainerState]
    init: Sequence[ContainerState]
    restart_policy: str
    terminating: bool

    @property
    def initialized(self) -> bool:
        """Whether every init container is done (a sidecar: has started)."""
        return all(
            each.started if each.is_sidecar else each.stopped and each.exit_code == 0
            for each in self.init
        ) or any(each.running or each.stopped for each in self.main)

    @property
    def ready(self) -> bool:
        """Whether every container is ready."""
        sidecars = [each for each in self.init if each.is_sidecar]
        return bool(self.main) and all(each.ready for each in (*self.main, *sidecars))


def phase(view: View) -> str:
    """Pending, Running, Succeeded or Failed, by the kubelet's rules."""
    if not view.initialized:
        failed = any("terminated" in each.state and each.exit_code for each in view.init)
        return "Failed" if failed and view.restart_policy == "Never" else "Pending"
    if any(not each.running and not each.stopped for each in view.main):
        return "Pending"
    if any(each.running for each in view.main):
        return "Running"
    clean = all(each.exit_code == 0 for each in view.main)
    if view.terminating or view.restart_policy == "Never":
        return "Succeeded" if clean else "Failed"
    if view.restart_policy == "OnFailure" and clean:
        return "Succeeded"
    return "Running"


def conditions(view: View, *, networked: bool) -> dict[str, tuple[bool, str]]:
    """Type -> (status, reason) of the conditions that a kubelet writes."""
    ended = phase(view) in {"Succeeded", "Failed"}
    ready = view.ready and view.initialized and not ended
    reason = "PodCompleted" if phase(view) == "Succeeded" else "ContainersNotReady"
    return {
        "PodReadyToStartContainers": (networked and not ended, ""),
        "Initialized": (view.initialized, "" if view.initialized else "ContainersNotInitialized"),
        "ContainersReady": (ready, "" if ready else reason),
        "Ready": (ready, "" if ready else reason),
        "PodScheduled": (True, ""),
    }


def condition_list(
    wanted: Mapping[str, tuple[bool, str]], former: Mapping[str, Object], now: str
) -> dict[str, Object]:
    """The conditions as objects by type; the time of the last change is kept."""
    found = {}
    for kind, (value, reason) in wanted.items():
        status = str(value)
        before = former.get(kind, {})
        since = before.get("lastTransitionTime", now) if before.get("status") == status else now
        found[kind] = {
            "type": kind,
            "status": status,
            "reason": reason or None,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
    return found
