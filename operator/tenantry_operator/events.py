"""Kubernetes Events: one when a policy becomes ready, stops being so, or has another reason."""

from collections.abc import Mapping
from typing import Any

from tenantry_api import names
from tenantry_api.conditions import ConditionType, Reason
from tenantry_operator.status import condition

MESSAGE_LIMIT = 1024
# Not ready yet, and nobody has to do anything about it.
UNDER_WAY = frozenset({Reason.PROGRESSING, Reason.PENDING})


def ready_changed(
    body: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any], now: str
) -> dict[str, Any] | None:
    """The Event for a change of `Ready`, or None where it is as before.

    `body` is the policy, `old` and `new` its status, `now` a time in RFC 3339.
    """
    state = condition(new, ConditionType.READY)
    if state == condition(old, ConditionType.READY):
        return None
    message = next(i["message"] for i in new["conditions"] if i["type"] == ConditionType.READY)
    meta = body["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
        "type": "Normal" if state[0] == "True" or state[1] in UNDER_WAY else "Warning",
        "reason": state[1],
        "message": message[:MESSAGE_LIMIT],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": names.FIELD_MANAGER},
    }
