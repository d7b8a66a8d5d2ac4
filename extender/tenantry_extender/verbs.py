"""What kube-scheduler asks, answered from one snapshot.

`filter_nodes` and `prioritize` change nothing: the cluster autoscaler and preemption ask them in
dry runs. `bind` asks the same question again, because kube-scheduler filters the next pod before
it binds the last one, takes a hold, and says ok only after the API server has said so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tenantry_core import placement, turns
from tenantry_core.placement import TEXTS, UNRESOLVABLE, Misfit
from tenantry_core.slices import Slice
from tenantry_extender import manifests, wire
from tenantry_extender.books import Books
from tenantry_extender.manifests import Pod
from tenantry_extender.snapshot import Snapshot

ACCEPTED = "accepted"
BOUND = "bound"

#: What is left of each kind of slice for the pod that asks.
Rooms = dict[Slice, turns.Room]


class Refused(Exception):
    """The API server has refused a request for good; nothing has changed."""


class NoAnswer(Exception):
    """Whether the API server has done what was asked is not known."""


class Binder(Protocol):
    """What bind needs of the cluster; both raise Refused or NoAnswer."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None: ...

    async def node_of(self, namespace: str, name: str, uid: str) -> str:
        """The node that this very pod is bound to; "" for none, also when it is gone."""
        ...


@dataclass(frozen=True)
class Answer:
    """`reason` is the metric label of the decision."""

    reply: object
    reason: str


def judge(snapshot: Snapshot, pod: Pod, names: Iterable[str]) -> Mapping[str, Misfit | None]:
    """For each node why the pod may not use it now, or None. Only what is ours to judge: GPU
    slices and whose turn it is; kube-scheduler has seen to the rest."""
    if not pod.wants.slices:
        return dict.fromkeys(names)
    moment = snapshot.asking(pod)
    rooms: Rooms = {}
    return {name: _verdict(moment, pod, name, rooms) for name in names}


def _verdict(moment: Snapshot, pod: Pod, name: str, rooms: Rooms) -> Misfit | None:
    node = moment.nodes.get(name)
    if node is None:
        return Misfit.UNKNOWN_NODE
    if name == pod.nominated:  # the room was made for it by preemption
        return None
    misfit = placement.kind_misfit(pod.wants, node)
    if misfit is not None:
        return misfit
    ((resource, count),) = pod.wants.slices.items()
    kind = node.slices[resource]
    if kind not in rooms:
        claimants = moment.claimants(kind, asking=pod)
        rooms[kind] = turns.deal(claimants, moment.room(kind), kind, pod.uid).room
    if rooms[kind].free(name).get(resource, 0) >= count:
        return None
    free = moment.free[name].get(resource, 0)
    return Misfit.OVER_SHARE if free >= count else Misfit.NO_ROOM


def filter_nodes(args: wire.Args, snapshot: Snapshot) -> Answer:
    verdicts = judge(snapshot, manifests.pod(args.pod), args.names)
    fits = [name for name, misfit in verdicts.items() if misfit is None]
    misfits = {name: misfit for name, misfit in verdicts.items() if misfit is not None}
    texts = {name: TEXTS[misfit] for name, misfit in misfits.items()}
    closed = {name for name, misfit in misfits.items() if misfit in UNRESOLVABLE}
    reply = {
        **wire.accepted(args, fits),
        "FailedNodes": {name: text for name, text in texts.items() if name not in closed},
        "FailedAndUnresolvableNodes": {name: texts[name] for name in texts if name in closed},
    }
    commonest = Counter(misfits.values()).most_common(1)
    reason = ACCEPTED if fits or not commonest else commonest[0][0].value
    return Answer(wire.FilterResult.model_validate(reply), reason)


def prioritize(args: wire.Args, snapshot: Snapshot) -> Answer:
    pod = manifests.pod(args.pod)
    free = snapshot.asking(pod).free
    scores = [
        wire.HostPriority(
            host=name, score=placement.score(pod.wants, snapshot.nodes[name], free[name])
        )
        for name in args.names
        if name in snapshot.nodes
    ]
    return Answer(scores, "scored")


async def bind(args: wire.BindingArgs, books: Books, binder: Binder, now: float) -> Answer:
    """Take a hold, bind, and leave the hold until the watch shows the pod bound. Where the outcome
    is not known the hold stays until it expires."""
    pod = books.snapshot.pods.get(args.pod_uid)
    if pod is None:
        return _unbound("tenantry: pod is not in the books yet", "unknown_pod")
    if pod.node:
        return _already(pod.node, args.node)
    misfit = judge(books.snapshot, pod, [args.node])[args.node]
    if misfit is not None:
        return _unbound(TEXTS[misfit], misfit.value)
    books.hold(pod, args.node, now)
    try:
        await binder.bind(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
    except Refused as error:
        return await _after_refusal(args, books, binder, error)
    except NoAnswer as error:
        return _unbound(f"tenantry: no answer from the API server: {error}", "no_answer")
    return Answer(wire.BindingResult(), BOUND)


async def _after_refusal(
    args: wire.BindingArgs, books: Books, binder: Binder, error: Refused
) -> Answer:
    """An attempt whose answer was lost may have bound the pod: then the refusal is a yes."""
    try:
        actual = await binder.node_of(args.pod_namespace, args.pod_name, args.pod_uid)
    except (Refused, NoAnswer):
        return _unbound(f"tenantry: the API server refused: {error}", "no_answer")
    if actual == args.node:
        return Answer(wire.BindingResult(), BOUND)
    books.release(args.pod_uid)
    if actual:
        return _already(actual, args.node)
    return _unbound(f"tenantry: the API server refused: {error}", "refused")


def _already(actual: str, asked: str) -> Answer:
    if actual == asked:
        return Answer(wire.BindingResult(), BOUND)
    return _unbound("tenantry: pod is bound to another node already", "conflict")


def _unbound(text: str, reason: str) -> Answer:
    return Answer(wire.BindingResult(error=text), reason)
