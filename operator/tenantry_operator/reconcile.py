"""One policy, from what it says to what is there: observe, desire, carry out, tell.

This is the only function that calls all the others. It looks at what is, never
at what happened, so a lost event costs time and nothing else.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from tenantry_api import document, names, parse
from tenantry_api.conditions import ConditionType, Reason
from tenantry_api.policy import Mode, TenantServingPolicy
from tenantry_operator import changes, status
from tenantry_operator.changes import Answer
from tenantry_operator.cluster import CHILDREN, POLICY, ApiError, Cluster, Manifest
from tenantry_operator.desired.children import children
from tenantry_operator.desired.labels import Owner
from tenantry_operator.engines import Engines
from tenantry_operator.events import ready_changed
from tenantry_operator.judge import Facts, Obstacle
from tenantry_operator.observed import Pod, Rollout, pods, rollout
from tenantry_operator.settings import Settings
from tenantry_operator.workqueue import Key

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
_KINDS = {kind.kind: kind for kind in CHILDREN}


@dataclass(frozen=True)
class Outcome:
    """What a reconcile ended with. `ready` is None when the policy is gone."""

    result: str
    ready: bool | None = None
    again: float | None = None  # seconds until it is worth looking again without an event


class Applied(NamedTuple):
    """What became of one child: what stood in the way, the child, whether it was as it should be
    already."""

    obstacle: Obstacle | None = None
    current: Manifest | None = None
    kept: bool = False


@dataclass(frozen=True)
class Reconciler:
    """What a reconcile needs besides the policy."""

    cluster: Cluster
    engines: Engines
    settings: Settings
    clock: Callable[[], datetime]

    async def reconcile(self, key: Key) -> Outcome:
        """Make the cluster what the policy says. Raises `ApiError` when the API fails under way."""
        body = await self._living(key)
        if body is None:
            self.engines.forget(key)  # the garbage collector takes the children
            return Outcome("ok")
        before = status.Before(body.get("status", {}), body["metadata"]["generation"], self._now())
        try:
            policy = parse.policy(body)
        except parse.Invalid as error:
            await self._tell(body, status.refused(error, before))
            return Outcome("invalid", ready=False)
        facts = await self._carry_out(key, body, policy)
        policy_hash = document.policy_hash(document.canonical(policy))
        told = await self._tell(body, status.observed(facts, policy_hash, before))
        return _outcome(facts, told)

    async def _living(self, key: Key) -> Manifest | None:
        """The policy, unless it or its namespace is gone or being deleted."""
        body = await self.cluster.get(POLICY, key.namespace, key.name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            return None
        return None if await self.cluster.namespace_ends(key.namespace) else body

    async def _carry_out(self, key: Key, body: Manifest, policy: TenantServingPolicy) -> Facts:
        obstacle, rolled = await self._apply_all(body, policy)
        found = pods(await self.cluster.pods(key.namespace, key.name), key.name)
        alive = tuple(pod for pod in found if not pod.terminating)
        off = policy.spec.scheduling.mode is Mode.OFF
        if obstacle is None and not off:
            await self._tell_pods(key, policy, alive)
        addresses = {pod.uid: pod.address for pod in alive if pod.running and pod.address}
        self.engines.watch(key, {} if off else addresses)
        return Facts(policy, rolled, alive, self.engines.of(key), obstacle)

    async def _apply_all(
        self, body: Manifest, policy: TenantServingPolicy
    ) -> tuple[Obstacle | None, Rollout]:
        """Apply until something stands in the way. Returns that, and how far the Deployment is."""
        done = Applied()
        for manifest in children(policy, Owner.of(body), self.settings):
            done = await self._apply(changes.stamped(manifest))
            if done.obstacle is not None:
                return done.obstacle, Rollout()
        found = rollout(done.current)  # the Deployment comes last
        # An annotation of somebody else's makes a new generation too: what was rolled out still is.
        if done.kept and status.was_ready(body):
            found = replace(found, seen=True)
        return None, found

    async def _apply(self, wanted: Manifest) -> Applied:
        kind, meta = _KINDS[wanted["kind"]], wanted["metadata"]
        observed = await self.cluster.get(kind, meta["namespace"], meta["name"])
        answer = changes.answer(wanted, observed)
        if answer is Answer.KEEP:
            return Applied(current=observed, kept=True)
        if answer is not Answer.APPLY:
            return Applied(_obstacle(answer, wanted), observed)
        if wanted["kind"] == "Deployment":
            wanted = changes.keep_replicas(wanted, observed)
        try:
            applied = await self.cluster.apply(kind, wanted)
        except ApiError as error:
            if not error.permanent:
                raise
            text = f"{wanted['kind']} {meta['name']} was refused: {error.message}"
            return Applied(Obstacle(Reason.REFUSED, text), observed)
        log.info("applied %s %s/%s", wanted["kind"], meta["namespace"], meta["name"])
        return Applied(current=applied)

    async def _tell_pods(
        self, key: Key, policy: TenantServingPolicy, alive: tuple[Pod, ...]
    ) -> None:
        """Touch the running pods of another hash, so that the kubelet renews their volume now.

        It is the pods and not the template that are touched: a new template replaces pods.
        """
        wanted = document.policy_hash(document.canonical(policy))
        for pod in alive:
            if pod.told_hash != wanted:
                notes = {names.ANNOTATION_POLICY_HASH: wanted}
                await self.cluster.annotate_pod(key.namespace, pod.name, notes)

    async def _tell(self, body: Manifest, new: Mapping[str, Any]) -> bool:
        """Write the status if it changed, and then the event. Returns whether it is Ready."""
        old = body.get("status", {})
        meta = {key: body["metadata"][key] for key in ("name", "namespace")}
        if status.differs(old, new):
            manifest = {
                "apiVersion": POLICY.api_version,
                "kind": POLICY.kind,
                "metadata": meta,
                "status": dict(new),
            }
            await self.cluster.apply(POLICY, manifest, "status")
            await self._announce(body, old, new)
        return status.condition(new, ConditionType.READY)[0] == "True"

    async def _announce(
        self, body: Manifest, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        event = ready_changed(body, old, new, self._now())
        if event is None:
            return
        meta = body["metadata"]
        log.info(
            "%s/%s is %s: %s", meta["namespace"], meta["name"], event["reason"], event["message"]
        )
        await self.cluster.post_event(event)

    def _now(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _obstacle(answer: Answer, wanted: Mapping[str, Any]) -> Obstacle:
    what = f"{wanted['kind']} {wanted['metadata']['name']}"
    if answer is Answer.WAIT:
        return Obstacle(Reason.PROGRESSING, f"{what} is being deleted.", passing=True)
    text = f"{what} exists and belongs to somebody else: delete it, or rename the policy."
    return Obstacle(Reason.NAME_TAKEN, text)


def _outcome(facts: Facts, ready: bool) -> Outcome:
    if facts.obstacle is None:
        return Outcome("ok", ready)
    return Outcome("conflict", ready, AGAIN_SECONDS)
