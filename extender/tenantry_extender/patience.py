"""How long a pod may have its turn without using it.

Slices that a waiting pod's turn covers are kept from others. The deal knows resources, labels and
taints; it does not know volumes, pod affinity or topology spread. A pod that kube-scheduler cannot
place for such a reason would keep slices idle for ever, so after a while it is set aside: it is
still placed when asked for, but holds nobody back. Later it gets another chance.
"""

from dataclasses import dataclass, field

from tenantry_extender.snapshot import Snapshot

TURN_SECONDS = 60.0
ASIDE_SECONDS = 300.0


@dataclass
class Patience:
    """Times are on the caller's clock."""

    _since: dict[str, float] = field(default_factory=dict)
    _aside: dict[str, float] = field(default_factory=dict)

    def aside(self, snapshot: Snapshot, now: float) -> frozenset[str]:
        """The uids of pods to be set aside, from who has a turn in `snapshot`."""
        self._aside = {
            uid: until for uid, until in self._aside.items() if until > now and uid in snapshot.pods
        }
        self._since = {uid: self._since.get(uid, now) for uid in snapshot.due}
        for uid, since in self._since.items():
            if now - since >= TURN_SECONDS:
                self._aside[uid] = now + ASIDE_SECONDS
        return frozenset(self._aside)
