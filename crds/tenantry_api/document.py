"""The canonical bytes of a policy, which the operator writes and every engine reads."""

import hashlib
import json
from typing import Any

from tenantry_api import defaults
from tenantry_api.policy import Spec, TenantServingPolicy
from tenantry_api.values import Part

HASH_DIGITS = 12


def as_dict(policy: TenantServingPolicy) -> dict[str, Any]:
    """apiVersion, kind, metadata.name, metadata.namespace and the defaulted spec; no more."""
    return {
        "apiVersion": policy.api_version,
        "kind": policy.kind,
        "metadata": {"name": policy.metadata.name, "namespace": policy.metadata.namespace},
        "spec": _given(Spec, policy.spec.model_dump(mode="json", by_alias=True)),
    }


def canonical(policy: TenantServingPolicy) -> bytes:
    """Equal policies have equal bytes: JSON in UTF-8, sorted keys, no spaces."""
    text = json.dumps(
        as_dict(policy),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return text.encode()


def policy_hash(data: bytes) -> str:
    """The first 12 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]


def _given(kind: type[Part], body: dict[str, Any]) -> dict[str, Any]:
    """`body` without the fields that are left out; nulls inside a pod template stay."""
    given = {key: value for key, value in body.items() if value is not None}
    for alias, inner, many in defaults.parts_of(kind):
        if alias in given:
            value = given[alias]
            given[alias] = [_given(inner, v) for v in value] if many else _given(inner, value)
    return given
