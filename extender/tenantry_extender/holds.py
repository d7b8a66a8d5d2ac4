"""Holds: slices set aside from bind until the watch shows the pod on its node.

Between the two the cluster has given the slices away and the books do not show it yet. A hold
expires, so that a bind whose outcome is never seen does not keep slices for ever. Every function
returns new `Holds`; time is an argument.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tenantry_extender.manifests import Pod


@dataclass(frozen=True)
class Hold:
    """`until` is on the caller's clock, in seconds."""

    pod: Pod
    node: str
    until: float


@dataclass(frozen=True)
class Holds:
    by_uid: Mapping[str, Hold] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self.by_uid.values())

    def node_of(self, uid: str) -> str | None:
        hold = self.by_uid.get(uid)
        return None if hold is None else hold.node

    def take(self, pod: Pod, node: str, until: float) -> "Holds":
        """A pod has one hold: a second one, for a new attempt, replaces the first."""
        return Holds({**self.by_uid, pod.uid: Hold(pod, node, until)})

    def release(self, uid: str) -> "Holds":
        return Holds({key: hold for key, hold in self.by_uid.items() if key != uid})

    def settle(self, pods: Mapping[str, Pod]) -> "Holds":
        """Drop the holds of pods that the books show on a node, or no longer show at all."""
        waiting = {uid: hold for uid, hold in self.by_uid.items() if uid in pods}
        return Holds({uid: hold for uid, hold in waiting.items() if not pods[uid].node})

    def expire(self, now: float) -> "Holds":
        return Holds({uid: hold for uid, hold in self.by_uid.items() if hold.until > now})
