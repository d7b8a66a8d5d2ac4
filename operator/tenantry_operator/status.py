"""The status of a policy: what is written at the end of a reconcile, if anything changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import conditions, names
from tenantry_api.conditions import Condition, ConditionType, Reason, State
from tenantry_api.parse import Invalid
from tenantry_api.policy import TenantServingPolicy
from tenantry_api.values import quantity_text
from tenantry_operator.desired.gpu import describe
from tenantry_operator.judge import VERDICTS, Facts, Verdict

WRITTEN = (
    "observedGeneration",
    "conditions",
    "replicas",
    "readyReplicas",
    "policyHash",
    "policyHashes",
    "tenantNames",
    "weights",
    "gpu",
)
# Of a text, and of the map of hashes, as the resource's schema says.
LINE_LIMIT = 1024
HASHES_LIMIT = 1024


@dataclass(frozen=True)
class Before:
    """The policy as it was read: its status so far, the generation that is spoken of, the time."""

    status: Mapping[str, Any]
    generation: int
    now: str  # RFC 3339, UTC


def observed(facts: Facts, policy_hash: str, before: Before) -> dict[str, Any]:
    """The status of a policy that was accepted."""
    verdicts = {kind: judge(facts) for kind, judge in VERDICTS.items()}
    spec = facts.policy.spec
    status: dict[str, Any] = {
        "observedGeneration": before.generation,
        "conditions": _conditions(verdicts, before),
        "replicas": facts.rollout.current,
        "readyReplicas": facts.rollout.ready,
        "policyHash": policy_hash,
        "tenantNames": _line(tenant.name for tenant in spec.tenants) or names.DEFAULT_TENANT,
        "gpu": describe(spec.gpu),
    }
    # The API server makes null, which it then refuses, of an applied map that loses its last entry.
    maybe = {"policyHashes": _hashes(facts), "weights": _line(_weights(facts.policy))}
    return {**status, **{key: value for key, value in maybe.items() if value}}


def refused(error: Invalid, before: Before) -> dict[str, Any]:
    """The status of a policy that cannot be read: every finding, and the rest as it was.

    What runs for an earlier generation goes on, so what is known of it stays.
    """
    text = str(error)
    verdicts = {
        ConditionType.READY: Verdict(State.FALSE, Reason.INVALID, text),
        ConditionType.RECONCILING: Verdict(
            State.FALSE, Reason.INVALID, "Nothing is applied until the policy is valid."
        ),
        ConditionType.STALLED: Verdict(State.TRUE, Reason.INVALID, text),
        ConditionType.ACCEPTED: Verdict(State.FALSE, Reason.INVALID, text),
    }
    found = _conditions(verdicts, before)
    return {**before.status, "observedGeneration": before.generation, "conditions": found}


def differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether `new` says something else than `old` in a field that the operator writes.

    Other fields may be there: defaults of the schema, and what other parts report.
    """
    return any(old.get(key) != new.get(key) for key in WRITTEN)


def condition(status: Mapping[str, Any], kind: ConditionType) -> tuple[str, str]:
    """Status and reason of one condition; a pair of empty texts where it is absent."""
    for item in status.get("conditions", []):
        if item["type"] == kind:
            return item["status"], item["reason"]
    return "", ""


def was_ready(body: Mapping[str, Any]) -> bool:
    """Whether the status of a policy says of its present generation that it is Ready."""
    found = body.get("status", {})
    current = found.get("observedGeneration") == body["metadata"]["generation"]
    return bool(current and condition(found, ConditionType.READY)[0] == State.TRUE)


def _conditions(verdicts: Mapping[ConditionType, Verdict], before: Before) -> list[dict[str, Any]]:
    found = conditions.read(before.status.get("conditions", []))
    for kind, verdict in verdicts.items():
        new = Condition(
            type=kind,
            status=verdict.state,
            reason=verdict.reason,
            message=verdict.message,
            last_transition_time=before.now,
            observed_generation=before.generation,
        )
        found = conditions.set_condition(found, new)
    return [item.as_dict() for item in found]


def _hashes(facts: Facts) -> dict[str, str]:
    """The policy in force in each engine, by pod name."""
    engines = ((pod.name, facts.engines.get(pod.uid)) for pod in facts.pods[:HASHES_LIMIT])
    return {
        name: engine.policy_hash
        for name, engine in engines
        if engine is not None and engine.policy_hash
    }


def _weights(policy: TenantServingPolicy) -> Iterable[str]:
    return (f"{tenant.name}={quantity_text(tenant.weight)}" for tenant in policy.spec.tenants)


def _line(items: Iterable[str]) -> str:
    text = ", ".join(items)
    return text if len(text) <= LINE_LIMIT else text[: LINE_LIMIT - 3] + "..."
