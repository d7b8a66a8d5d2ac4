"""What the extender does without being asked: it wakes pods whose turn has come, and says why
others wait.

kube-scheduler does not try a pod again that an extender has refused until something in the cluster
changes. A turn can come without that: a share freed by an edited policy, a hold that expired. So
a refused pod whose turn it is gets a new annotation, which brings it back at once; the same pod is
poked again only after growing pauses.

Where the nodes are full, kube-scheduler answers by itself ("Insufficient nvidia.com/gpu") and never
asks the extender. For a pod whose policy has its share, and for one that is larger than every node,
the true reason is added to that message.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tenantry_core.placement import TEXTS, Misfit
from tenantry_extender.books import Books
from tenantry_extender.manifests import Pod
from tenantry_extender.patience import Patience
from tenantry_extender.snapshot import Snapshot
from tenantry_extender.verbs import NoAnswer, Refused

log = logging.getLogger(__name__)

#: How every text of ours begins.
MARK = "tenantry: "
TOO_LARGE = f"{MARK}no node has so many GPUs of this kind, also when all are free"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Changes come in bursts; one look after each burst is enough. Holds expire without a change.
SETTLE_SECONDS, LOOK_SECONDS = 0.05, 1.0


class Waker(Protocol):
    """What poking needs of the cluster; both raise Refused or NoAnswer."""

    async def poke(self, namespace: str, name: str, at: str) -> None: ...

    async def explain(self, namespace: str, name: str, version: str, message: str) -> None: ...


def refused_and_due(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Waiting pods that we have refused and whose turn it is now."""
    due = (snapshot.pods[uid] for uid in sorted(snapshot.due))
    return tuple(pod for pod in due if MARK in pod.message)


def unexplained(snapshot: Snapshot) -> tuple[tuple[Pod, str], ...]:
    """Waiting pods that kube-scheduler itself finds no GPU for, and why they wait in truth."""
    short = {pod.uid: TOO_LARGE for pod in snapshot.oversized()}
    short |= {pod.uid: TEXTS[Misfit.OVER_SHARE] for pod in _over_share(snapshot)}
    pods = ((snapshot.pods[uid], text) for uid, text in short.items())
    return tuple((pod, text) for pod, text in pods if _is_short_of_gpus(pod))


def _over_share(snapshot: Snapshot) -> Iterator[Pod]:
    """Pods that their policy's share keeps waiting: the policy has it, and others hold or want the
    rest."""
    for kind in snapshot.kinds:
        claimants = snapshot.claimants(kind)
        for claimant in claimants if len(claimants) > 1 else ():
            for waiting in claimant.waiting:
                pod = snapshot.pods[waiting.uid]
                over = claimant.used + waiting.count * kind.size > claimant.entitled
                if over and pod.uid not in snapshot.due:
                    yield pod


def _is_short_of_gpus(pod: Pod) -> bool:
    short = any(f"Insufficient {resource}" in pod.message for resource in pod.wants.slices)
    return short and MARK not in pod.message and pod.reason == "Unschedulable"


def explained(message: str, reason: str) -> str:
    return f"{message.rstrip()} {reason}."


@dataclass
class Pauses:
    """When each pod may be poked next: after 1 s, then 2, 4, ... up to a minute, for as long as it
    stays refused and due."""

    _next: dict[str, tuple[float, float]] = field(default_factory=dict)

    def ripe(self, pods: Iterable[Pod], now: float) -> tuple[Pod, ...]:
        """Those of `pods` that may be poked now; forgets all others."""
        pods = tuple(pods)
        uids = {pod.uid for pod in pods}
        self._next = {uid: entry for uid, entry in self._next.items() if uid in uids}
        ripe = tuple(pod for pod in pods if self._next.get(pod.uid, (now, 0.0))[0] <= now)
        for pod in ripe:
            _, last = self._next.get(pod.uid, (now, FIRST_PAUSE / 2))
            pause = min(LONGEST_PAUSE, 2 * last)
            self._next[pod.uid] = (now + pause, pause)
        return ripe


@dataclass
class Poker:
    """Looks at the books after every change and once a second."""

    books: Books
    waker: Waker
    clock: Callable[[], float]
    stamp: Callable[[], str]
    pokes: Callable[[str], None] = lambda _outcome: None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _pauses: Pauses = field(default_factory=Pauses)
    _writes: Pauses = field(default_factory=Pauses)
    _patience: Patience = field(default_factory=Patience)

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        while True:
            began = self.clock()
            if self.books.complete():
                await self.look()
            # Verbs come first: never more than half of the time goes into looking.
            await asyncio.sleep(SETTLE_SECONDS + self.clock() - began)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), LOOK_SECONDS)
            self._woken.clear()

    async def look(self) -> None:
        now = self.clock()
        for uid in self.books.expire(now):
            log.warning("the hold of pod %s has expired: its bind was never seen", uid)
        self.books.set_aside(self._patience.aside(self.books.snapshot, now))
        snapshot = self.books.snapshot
        for pod in self._pauses.ripe(refused_and_due(snapshot), now):
            await self._poke(pod)
        reasons = {pod.uid: text for pod, text in unexplained(snapshot)}
        for pod in self._writes.ripe((snapshot.pods[uid] for uid in reasons), now):
            await self._explain(pod, reasons[pod.uid])

    async def _poke(self, pod: Pod) -> None:
        try:
            await self.waker.poke(pod.namespace, pod.name, self.stamp())
        except (Refused, NoAnswer) as error:
            log.warning("cannot poke pod %s/%s: %s", pod.namespace, pod.name, error)
            self.pokes("failed")
        else:
            log.info("poked pod %s/%s: its turn has come", pod.namespace, pod.name)
            self.pokes("poked")

    async def _explain(self, pod: Pod, reason: str) -> None:
        message = explained(pod.message, reason)
        try:
            await self.waker.explain(pod.namespace, pod.name, pod.version, message)
        except Refused as error:  # the pod has changed since; the next look sees how
            log.debug("no reason written to pod %s/%s: %s", pod.namespace, pod.name, error)
        except NoAnswer as error:
            log.warning("cannot write to pod %s/%s: %s", pod.namespace, pod.name, error)
