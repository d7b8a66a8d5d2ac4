"""Conditions of a policy: all positive, one reason each from one enum."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

# Of `message` in the schema, as in every condition of Kubernetes.
MESSAGE_LIMIT = 32_768
_CUT = " ..."


class ConditionType(StrEnum):
    """What can be said of a policy."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    ACCEPTED = "Accepted"
    SHARES_FEASIBLE = "SharesFeasible"
    ENGINE_ACTIVE = "EngineActive"
    FULLY_ENFORCED = "FullyEnforced"
    OBJECTIVES_MET = "ObjectivesMet"
    ROLLOUT_UNBLOCKED = "RolloutUnblocked"


class State(StrEnum):
    """What a condition's `status` may be."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition is what it is."""

    ACCEPTED = "Accepted"
    INVALID = "Invalid"
    NAME_TAKEN = "NameTaken"
    REFUSED = "Refused"
    READY = "Ready"
    RECONCILED = "Reconciled"
    PROGRESSING = "Progressing"
    FEASIBLE = "Feasible"
    NO_NODE = "NoNode"
    NOT_ENTITLED = "NotEntitled"
    PENDING = "Pending"
    ENFORCE = "Enforce"
    OBSERVE = "Observe"
    OFF = "Off"
    SEAM_MISSING = "SeamMissing"
    UNREACHABLE = "Unreachable"
    STALE_POLICY = "StalePolicy"
    NO_REPLICAS = "NoReplicas"
    ALL_ENFORCED = "AllEnforced"
    NOT_IMPLEMENTED = "NotImplemented"
    NO_OBJECTIVES = "NoObjectives"
    NOT_MEASURED = "NotMeasured"
    ROLLED_OUT = "RolledOut"
    ROLLING_OUT = "RollingOut"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    ERROR = "Error"


@dataclass(frozen=True)
class Condition:
    """One condition; `last_transition_time` is RFC 3339 in UTC, as the caller's clock says."""

    type: ConditionType
    status: State
    reason: Reason
    message: str
    last_transition_time: str
    observed_generation: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As it stands in `.status.conditions`; a message that is too long for it is cut."""
        message = self.message
        if len(message) > MESSAGE_LIMIT:
            message = message[: MESSAGE_LIMIT - len(_CUT)] + _CUT
        return {
            "type": self.type.value,
            "status": self.status.value,
            "reason": self.reason.value,
            "message": message,
            "lastTransitionTime": self.last_transition_time,
            "observedGeneration": self.observed_generation,
        }


def read(raw: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """The conditions of an object's status; those of another version are left out."""
    found = []
    for item in raw:
        try:
            found.append(_condition(item))
        except (KeyError, ValueError):
            continue
    return tuple(found)


def set_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """`conditions` with `new` in its place, or at the end.

    The time of the old one stays unless the status flips.
    """
    result, placed = [], False
    for old in conditions:
        if old.type is not new.type:
            result.append(old)
            continue
        placed = True
        kept = old.last_transition_time if old.status is new.status else new.last_transition_time
        result.append(replace(new, last_transition_time=kept))
    return tuple(result if placed else [*result, new])


def _condition(item: Mapping[str, Any]) -> Condition:
    return Condition(
        type=ConditionType(item["type"]),
        status=State(item["status"]),
        reason=Reason(item["reason"]),
        message=str(item.get("message", "")),
        last_transition_time=str(item["lastTransitionTime"]),
        observed_generation=int(item.get("observedGeneration", 0)),
    )
