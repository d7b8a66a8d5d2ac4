"""What the operator reports about a policy. Readers take what they know and ignore the rest."""

from typing import Annotated

from pydantic import ConfigDict, Field

from tenantry_api.conditions import MESSAGE_LIMIT
from tenantry_api.values import Part

Amount = Annotated[str, Field(max_length=32)]
Line = Annotated[str, Field(max_length=1024)]
Number = Annotated[int, Field(ge=0)]


class Observed(Part):
    """A part of the status: lenient, since another version may have written it."""

    model_config = ConfigDict(extra="ignore")


class StatusCondition(Observed):
    """One condition, as Kubernetes writes them."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What is said, positively.")
    status: Annotated[str, Field(max_length=7)] = Field(
        description="Whether it holds.", json_schema_extra={"enum": ["True", "False", "Unknown"]}
    )
    reason: Annotated[str, Field(max_length=1024)] = Field(description="Why, in one word.")
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = Field(
        description="Why, in a sentence, and what to do."
    )
    last_transition_time: Annotated[str, Field(max_length=64)] = Field(
        description="When `status` last changed.", json_schema_extra={"format": "date-time"}
    )
    observed_generation: Number | None = Field(
        None,
        description="The generation of the policy that this speaks of.",
        json_schema_extra={"format": "int64"},
    )


class Latencies(Observed):
    """Measured latencies, as durations."""

    ttft: Amount | None = Field(None, description="Time to the first token.")
    itl: Amount | None = Field(None, description="Time between two tokens.")
    e2e: Amount | None = Field(None, description="Time of the whole request.")


class TenantStatus(Observed):
    """What one tenant gets."""

    name: Annotated[str, Field(max_length=128)] = Field(description="The tenant.")
    entitled: Amount | None = Field(
        None, description="Share of the GPU time that it may have now, 0 to 1."
    )
    attained: Amount | None = Field(None, description="Share that it had in the last 60 s, 0 to 1.")
    kv_blocks: Number | None = Field(
        None,
        description="KV blocks that it holds.",
        json_schema_extra={"format": "int64"},
    )
    p99s: Latencies | None = Field(None, description="P99 latencies measured.")
    objectives_met: bool | None = Field(
        None, description="Whether its objectives hold. Absent: it has none, or nothing measured."
    )
    well_behaved: bool | None = Field(
        None, description="Whether its offered load of the last 60 s is within its share."
    )


class Status(Observed):
    """What the operator saw."""

    observed_generation: Number | None = Field(
        None,
        description="The generation of the policy that this status speaks of.",
        json_schema_extra={"format": "int64"},
    )
    conditions: tuple[StatusCondition, ...] = Field(
        (),
        max_length=32,
        description="Ready, Reconciling, Stalled, Accepted, SharesFeasible, EngineActive, "
        "FullyEnforced, ObjectivesMet and RolloutUnblocked; all positive.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    replicas: Number | None = Field(None, description="Engines that exist.")
    ready_replicas: Number | None = Field(None, description="Engines that answer.")
    policy_hash: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Hash of the policy as the operator wrote it for the engines."
    )
    policy_hashes: dict[str, Annotated[str, Field(max_length=64)]] | None = Field(
        None,
        max_length=1024,
        description="Hash in force in each engine, by pod name.",
    )
    tenant_names: Line | None = Field(None, description="The tenants, in one line.")
    weights: Line | None = Field(None, description="The weights, in one line.")
    gpu: Line | None = Field(None, description="The GPU claim of a replica: `1`, `0.5 MPS`.")
    tenants: tuple[TenantStatus, ...] = Field(
        (),
        max_length=65,
        description="What each tenant gets.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
