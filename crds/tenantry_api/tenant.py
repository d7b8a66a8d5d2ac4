"""A tenant of a policy: a named customer, its claim and its bounds."""

import unicodedata
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from tenantry_api import names
from tenantry_api.choices import Tier
from tenantry_api.gpu import Gpu
from tenantry_api.values import Count, Duration, ObjectName, Part, Percent, Quantity, Text

NAME_PATTERN = r"^[^\p{C}\p{Z}]([^\p{C}\p{Z}]|[ ])*$"
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
NAME_MESSAGE = "must be 1 to 128 printable characters, without a space at either end"
OTHER_MESSAGE = (
    f"`{names.OTHER_TENANT}` is the metric label of everybody who has none; choose another name"
)


def tenant_name(value: str) -> str:
    """A name as it is; ValueError says what may be written."""
    if not value or len(value) > 128 or value != value.strip(" ") or not _printable(value):
        raise ValueError(NAME_MESSAGE)
    if value == names.OTHER_TENANT:
        raise ValueError(OTHER_MESSAGE)
    return value


def _printable(text: str) -> bool:
    return all(letter == " " or unicodedata.category(letter) not in _HIDDEN for letter in text)


TenantName = Annotated[
    str,
    AfterValidator(tenant_name),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 128,
            "x-kubernetes-validations": [
                {
                    "rule": f"self.matches(r'{NAME_PATTERN}') && !self.endsWith(' ')",
                    "message": NAME_MESSAGE,
                },
                {"rule": f"self != '{names.OTHER_TENANT}'", "message": OTHER_MESSAGE},
            ],
        }
    ),
]


class TenantKVCache(Part):
    """The tenant's part of the KV cache."""

    reserve_percent: Percent = Field(
        0, description="Percent of the KV blocks that nobody else may take, used or not."
    )
    limit_percent: Percent = Field(
        100, description="Percent of the KV blocks that the tenant never exceeds."
    )
    group: Text | None = Field(
        None,
        description="Tenants of one group share their prefix cache when `kvCache.isolation` is "
        "Group. Left out: the tenant is a group of its own.",
    )


class Objective(Part):
    """The target of one latency."""

    p99: Duration | None = Field(None, description="99 of 100 requests are at most this long.")


class Objectives(Part):
    """The latencies that the tenant is promised; met or not is reported."""

    ttft: Objective | None = Field(None, description="Time to the first token.")
    itl: Objective | None = Field(None, description="Time between two tokens.")
    e2e: Objective | None = Field(None, description="Time of the whole request.")


class Limits(Part):
    """Bounds at the door; beyond them a request waits or is refused with the reason."""

    in_flight: Count | None = Field(None, description="Requests admitted and not finished.")
    queued: Count | None = Field(None, description="Requests that wait.")
    queued_tokens: Count | None = Field(None, description="Prompt tokens that wait.")
    queue_timeout: Duration | None = Field(
        None, description="How long a request waits before it is refused."
    )
    tokens_per_minute: Count | None = Field(None, description="Prompt and output tokens a minute.")


class TenantIdentity(Part):
    """How the tenant proves who it is."""

    api_key_secret: ObjectName | None = Field(
        None,
        description="Secret in the namespace of the policy that holds the tenant's API keys.",
    )


class Dedicated(Part):
    """The tenant's own Deployment beside the shared one."""

    replicas: Annotated[int, Field(strict=True, ge=0, le=10_000)] = Field(
        1, description="Engines of this tenant alone."
    )
    gpu: Gpu | None = Field(None, description="Its GPU claim. Left out: as the policy's.")
    priority_class_name: ObjectName | None = Field(
        None, description="Its PriorityClass. Left out: the policy's."
    )


class Tenant(Part):
    """A named customer in a policy."""

    name: TenantName = Field(
        description="What the identity header says: 1 to 128 printable characters, case counts. "
        "`default` is everybody without a name of their own; `other` is not allowed."
    )
    weight: Quantity = Field(
        Decimal(1),
        description="The tenant's claim against the other tenants; only ratios count. With a point "
        'it needs quotes: "1.5". 0: served only when nobody else waits.',
    )
    tier: Tier = Field(
        Tier.STANDARD,
        description="Band in the engine: Critical before Standard before Batch, each with a floor "
        "of 5 percent of the GPU time.",
    )
    kv_cache: TenantKVCache = Field(
        default_factory=TenantKVCache, description="The tenant's part of the KV cache."
    )
    objectives: Objectives | None = Field(
        None, description="Latencies that the tenant is promised; met or not is reported."
    )
    limits: Limits | None = Field(
        None, description="Bounds at the door. Each one left out is no bound."
    )
    identity: TenantIdentity | None = Field(
        None, description="How the tenant proves who it is, beyond the header."
    )
    dedicated: Dedicated | None = Field(
        None, description="The tenant's own Deployment beside the shared one."
    )
