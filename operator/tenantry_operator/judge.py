"""What can be said of a policy: each condition is a function from facts to a verdict.

The message says what to do. Nothing here writes, and no verdict depends on an earlier one's text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tenantry_api import names
from tenantry_api.conditions import ConditionType, Reason, State
from tenantry_api.enforcement import unenforced
from tenantry_api.policy import Mode, TenantServingPolicy
from tenantry_core.placement import TEXTS, Misfit
from tenantry_operator.engines import Engine
from tenantry_operator.observed import Pod, Rollout


class Verdict(NamedTuple):
    """One condition without its name and time."""

    state: State
    reason: Reason
    message: str


@dataclass(frozen=True)
class Obstacle:
    """What kept a child from being applied."""

    reason: Reason
    message: str
    passing: bool = False  # it goes by itself, or another try may succeed


@dataclass(frozen=True)
class Facts:
    """All that the verdicts are made of. `pods` are those that are not being stopped."""

    policy: TenantServingPolicy
    rollout: Rollout = field(default_factory=Rollout)
    pods: tuple[Pod, ...] = ()
    engines: Mapping[str, Engine] = field(default_factory=dict)  # by pod uid
    obstacle: Obstacle | None = None

    @property
    def mode(self) -> Mode:
        """The policy's mode."""
        return self.policy.spec.scheduling.mode


def accepted(_: Facts) -> Verdict:
    """The policy can be read; one that cannot never gets this far."""
    return Verdict(State.TRUE, Reason.ACCEPTED, "The policy is valid.")


def shares_feasible(facts: Facts) -> Verdict:
    """Whether every engine has a place."""
    waiting = [pod for pod in facts.pods if pod.unschedulable]
    if waiting:
        why = waiting[0].unschedulable
        held = TEXTS[Misfit.OVER_SHARE] in why  # the extender's words, in kube-scheduler's message
        reason = Reason.NOT_ENTITLED if held else Reason.NO_NODE
        text = f"{len(waiting)} of {len(facts.pods)} engines wait for a GPU: {why}"
        return Verdict(State.FALSE, reason, text)
    if not facts.pods:
        return _without_engines(facts)
    unplaced = sum(not pod.placed for pod in facts.pods)
    if unplaced:
        text = f"{unplaced} of {len(facts.pods)} engine pods wait for {names.SCHEDULER_NAME}."
        return Verdict(State.UNKNOWN, Reason.PENDING, text)
    return Verdict(State.TRUE, Reason.FEASIBLE, "Every engine has its GPU share.")


def _without_engines(facts: Facts) -> Verdict:
    """What is said of engines where there is no pod of one."""
    if facts.obstacle is not None:
        text = f"There is no engine yet: {facts.obstacle.message}"
        return Verdict(State.UNKNOWN, facts.obstacle.reason, text)
    if facts.rollout.refused:
        text = f"There is no engine yet: {facts.rollout.refused}"
        return Verdict(State.UNKNOWN, Reason.ERROR, text)
    if facts.rollout.seen and facts.rollout.wanted == 0:
        return Verdict(State.UNKNOWN, Reason.NO_REPLICAS, "No engine is asked for.")
    return Verdict(State.UNKNOWN, Reason.PENDING, "There is no engine yet.")


def engine_active(facts: Facts) -> Verdict:
    """Whether our scheduler decides in every engine."""
    if facts.mode is Mode.OFF:
        text = "scheduling.mode is Off: stock vLLM serves, without Tenantry."
        return Verdict(State.UNKNOWN, Reason.OFF, text)
    if not facts.pods:
        return _without_engines(facts)
    idle = [pod for pod in facts.pods if _engine(facts, pod).active is False]
    if idle:
        return _inactive(facts, idle[0], len(idle))
    ready = [pod for pod in facts.pods if pod.ready]
    if not ready:
        return Verdict(State.UNKNOWN, Reason.PENDING, "No engine answers yet.")
    if any(pod.uid not in facts.engines for pod in ready):
        return Verdict(State.UNKNOWN, Reason.PENDING, "An engine has not been asked yet.")
    silent = [pod for pod in ready if _engine(facts, pod).active is None]
    if silent:
        text = f"pod {silent[0].name} does not answer on its metrics port: see its log."
        return Verdict(State.UNKNOWN, Reason.UNREACHABLE, text)
    return Verdict(State.TRUE, Reason.ENFORCE, "Tenantry schedules in every engine.")


def _engine(facts: Facts, pod: Pod) -> Engine:
    return facts.engines.get(pod.uid, Engine())


def _inactive(facts: Facts, pod: Pod, count: int) -> Verdict:
    said = _engine(facts, pod).reason
    if said == Reason.OBSERVE and facts.mode is Mode.OBSERVE:
        text = "scheduling.mode is Observe: vLLM's own order; identity and metrics only."
        return Verdict(State.FALSE, Reason.OBSERVE, text)
    head = f"{count} of {len(facts.pods)} engines, first pod {pod.name}: "
    if said == Reason.OBSERVE:
        return Verdict(
            State.FALSE, Reason.STALE_POLICY, head + "the engine has not read the new policy yet."
        )
    if said == Reason.SEAM_MISSING:
        text = (
            "this vLLM lacks what Tenantry needs, so its stock scheduler serves without shares; "
            "the engine's log names both versions: use an engine image that fits."
        )
        return Verdict(State.FALSE, Reason.SEAM_MISSING, head + text)
    return Verdict(State.FALSE, Reason.ERROR, f"{head}not active, reason {said}: see its log.")


def fully_enforced(facts: Facts) -> Verdict:
    """Whether this version does all that the policy asks for."""
    paths = unenforced(facts.policy)
    if not paths:
        return Verdict(State.TRUE, Reason.ALL_ENFORCED, "Every setting has its effect.")
    text = f"This version does not enforce: {', '.join(paths)}."
    return Verdict(State.FALSE, Reason.NOT_IMPLEMENTED, text)


def objectives_met(facts: Facts) -> Verdict:
    """Whether the tenants' objectives hold."""
    if any(tenant.objectives for tenant in facts.policy.spec.tenants):
        text = "This version does not measure objectives."
        return Verdict(State.UNKNOWN, Reason.NOT_MEASURED, text)
    return Verdict(State.TRUE, Reason.NO_OBJECTIVES, "No tenant has an objective.")


def rollout_unblocked(facts: Facts) -> Verdict:
    """Whether the roll-out goes on by itself."""
    trouble = _trouble(facts)
    if facts.rollout.late:
        text = f"{facts.rollout.late} {trouble}".strip()
        return Verdict(State.FALSE, Reason.DEADLINE_EXCEEDED, text)
    if trouble:
        return Verdict(State.FALSE, Reason.ERROR, trouble)
    if facts.obstacle is not None:
        return Verdict(State.FALSE, facts.obstacle.reason, facts.obstacle.message)
    if facts.rollout.done:
        return Verdict(State.TRUE, Reason.ROLLED_OUT, "Every engine is as the policy says.")
    return Verdict(State.TRUE, Reason.ROLLING_OUT, _progress(facts.rollout))


def _trouble(facts: Facts) -> str:
    """Why no pod can be made, or a container does not run; empty if there is no such reason."""
    stuck = (pod.trouble for pod in facts.pods if pod.stuck)
    troubles = (facts.rollout.refused, *stuck, *(pod.trouble for pod in facts.pods))
    return next(filter(None, troubles), "")


def _stuck(facts: Facts) -> bool:
    return bool(facts.rollout.refused) or any(pod.stuck for pod in facts.pods)


def _progress(seen: Rollout) -> str:
    return f"{seen.available} of {seen.wanted} engines answer, {seen.updated} are up to date."


def ready(facts: Facts) -> Verdict:
    """Whether the policy serves as it says: accepted, rolled out, and decided by our scheduler."""
    if facts.obstacle is not None:
        return Verdict(State.FALSE, facts.obstacle.reason, facts.obstacle.message)
    if not facts.rollout.done:
        return _not_rolled_out(facts)
    engine = engine_active(facts)
    if facts.mode is Mode.ENFORCE and engine.state is not State.TRUE:
        return Verdict(State.FALSE, engine.reason, engine.message)
    count = facts.rollout.available
    return Verdict(State.TRUE, Reason.READY, f"{count} of {count} engines serve.")


def _not_rolled_out(facts: Facts) -> Verdict:
    for asked in (rollout_unblocked, shares_feasible):
        verdict = asked(facts)
        if verdict.state is State.FALSE:
            return verdict
    return Verdict(State.FALSE, Reason.PROGRESSING, _progress(facts.rollout))


def reconciling(facts: Facts) -> Verdict:
    """Whether work is under way (kstatus)."""
    stands = stalled(facts)
    if stands.state is State.TRUE:
        return Verdict(State.FALSE, stands.reason, f"Somebody has to act first: {stands.message}")
    if facts.obstacle is not None:
        return Verdict(State.TRUE, Reason.PROGRESSING, facts.obstacle.message)
    if not facts.rollout.done:
        text = f"{_progress(facts.rollout)} {_trouble(facts)}".strip()
        return Verdict(State.TRUE, Reason.PROGRESSING, text)
    return Verdict(State.FALSE, Reason.RECONCILED, "Nothing is left to do.")


def stalled(facts: Facts) -> Verdict:
    """Whether somebody has to act before work can go on (kstatus)."""
    if facts.obstacle is None and facts.rollout.late:
        return Verdict(State.TRUE, *rollout_unblocked(facts)[1:])
    if facts.obstacle is not None and not facts.obstacle.passing:
        return Verdict(State.TRUE, facts.obstacle.reason, facts.obstacle.message)
    if facts.obstacle is None and not facts.rollout.done and _stuck(facts):
        return Verdict(State.TRUE, Reason.ERROR, _trouble(facts))
    return Verdict(State.FALSE, Reason.RECONCILED, "Nothing stands in the way.")


VERDICTS: Mapping[ConditionType, Callable[[Facts], Verdict]] = {
    ConditionType.READY: ready,
    ConditionType.RECONCILING: reconciling,
    ConditionType.STALLED: stalled,
    ConditionType.ACCEPTED: accepted,
    ConditionType.SHARES_FEASIBLE: shares_feasible,
    ConditionType.ENGINE_ACTIVE: engine_active,
    ConditionType.FULLY_ENFORCED: fully_enforced,
    ConditionType.OBJECTIVES_MET: objectives_met,
    ConditionType.ROLLOUT_UNBLOCKED: rollout_unblocked,
}
