"""The resource itself. Every type of a policy can be imported from here.

Durations are `timedelta`; `stepBudget: auto` is None. Quantities are `Decimal`. What an omitted
field means stands beside it, or, where that depends on other fields, in `defaults`.
"""

import ipaddress
import re
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from tenantry_api import names
from tenantry_api.choices import (
    Eviction,
    Fairness,
    Isolation,
    Mode,
    Ordering,
    Sharing,
    Tier,
    UnknownTenant,
)
from tenantry_api.engine import (
    Autoscaling,
    Claim,
    Engine,
    Hub,
    Image,
    KVCache,
    Model,
    Scheduling,
    Source,
)
from tenantry_api.gpu import Gpu
from tenantry_api.status import Status
from tenantry_api.tenant import (
    Dedicated,
    Limits,
    Objective,
    Objectives,
    Tenant,
    TenantIdentity,
    TenantKVCache,
)
from tenantry_api.values import ObjectName, Part, Quantity

__all__ = [
    "Autoscaling",
    "Claim",
    "Dedicated",
    "Engine",
    "Eviction",
    "Fairness",
    "Gpu",
    "Hub",
    "Identity",
    "Image",
    "Isolation",
    "KVCache",
    "Limits",
    "Metadata",
    "Mode",
    "Model",
    "Objective",
    "Objectives",
    "Ordering",
    "Scheduling",
    "Sharing",
    "Source",
    "Spec",
    "Status",
    "Tenant",
    "TenantIdentity",
    "TenantKVCache",
    "TenantServingPolicy",
    "Tier",
    "UnknownTenant",
]

HEADER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9-]{0,126}$"
HEADER_MESSAGE = "must be the name of an HTTP header: letters, digits and dashes, at most 127"
CIDR_MESSAGE = "must be a network such as 10.0.0.0/8 or fd00::/8; a single address is /32 or /128"


def header(value: str) -> str:
    """A header's name as it is; ValueError says what may be written."""
    if not re.fullmatch(HEADER_PATTERN, value):
        raise ValueError(HEADER_MESSAGE)
    return value


def cidr(value: str) -> str:
    """A network as it is written; ValueError says what may be written."""
    address, _, prefix = value.partition("/")
    try:
        bits = ipaddress.ip_address(address).max_prefixlen
    except ValueError as error:
        raise ValueError(CIDR_MESSAGE) from error
    if "%" in address or not re.fullmatch(r"^(0|[1-9][0-9]{0,2})$", prefix) or int(prefix) > bits:
        raise ValueError(CIDR_MESSAGE)
    return value


def _text(limit: int, rule: str, message: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "maxLength": limit,
            "x-kubernetes-validations": [{"rule": rule, "message": message}],
        }
    )


Header = Annotated[
    str,
    AfterValidator(header),
    _text(127, f"self.matches('{HEADER_PATTERN}')", HEADER_MESSAGE),
]
Cidr = Annotated[str, AfterValidator(cidr), _text(64, "isCIDR(self)", CIDR_MESSAGE)]


class Metadata(Part):
    """What Tenantry reads of the object's metadata; the rest is left alone."""

    model_config = ConfigDict(extra="ignore")

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0


class Identity(Part):
    """Who is calling."""

    header: Header = Field(
        names.DEFAULT_HEADER, description="The request header that names the tenant."
    )
    trusted_peers: tuple[Cidr, ...] = Field(
        min_length=1,
        max_length=64,
        description="Networks whose header is believed: your gateway's. From any other peer "
        "everybody is tenant `default`.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Spec(Part):
    """What the team declares."""

    model: Model = Field(description="The model that is served, and where it comes from.")
    engine: Engine = Field(
        default_factory=Engine, description="The Deployment of the vLLM engines."
    )
    gpu: Gpu = Field(default_factory=Gpu, description="The GPU claim of one replica.")
    priority_class_name: ObjectName = Field(
        names.DEFAULT_PRIORITY_CLASS,
        description="PriorityClass of the engine pods: tenantry-critical, tenantry-standard, "
        "tenantry-batch, or any other that exists.",
    )
    weight: Quantity = Field(
        Decimal(1),
        description="This policy's claim on the cluster's GPUs against the other policies of its "
        'namespace; only ratios count. With a point it needs quotes: "1.5". 0: only what nobody '
        "else wants.",
    )
    identity: Identity | None = Field(
        None, description="Who is calling. Left out: everybody is tenant `default`."
    )
    unknown_tenant: UnknownTenant = Field(
        UnknownTenant.DEFAULT,
        description="A request of a tenant that is not listed. Default: it counts as tenant "
        "`default`. Refuse: HTTP 403.",
    )
    scheduling: Scheduling = Field(
        default_factory=Scheduling, description="Who gets the next piece of GPU time."
    )
    kv_cache: KVCache = Field(default_factory=KVCache, description="The KV cache of each engine.")
    tenants: tuple[Tenant, ...] = Field(
        (),
        max_length=64,
        description="The customers that share these engines, and what each may claim.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )


class TenantServingPolicy(Part):
    """The whole object. Make one with `parse.policy`, which fills in what was left out."""

    api_version: Literal["tenantry.dev/v1alpha1"]
    kind: Literal["TenantServingPolicy"]
    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)

    @property
    def served_name(self) -> str:
        """The name that clients put into `model`."""
        return self.spec.model.served_name or self.metadata.name
