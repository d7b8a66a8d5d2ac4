"""Documents that are no policy, with what is said about each.

One table for two readers: the unit tests ask `parse`, the cluster tests ask the API server, and
both must refuse every one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import names, parse, rules, tenant, values
from tenantry_api.engine import OWNED_MESSAGE, Autoscaling, Engine, KVCache, Source
from tenantry_api.gpu import Gpu
from tenantry_api.policy import CIDR_MESSAGE, HEADER_MESSAGE, Spec
from tenantry_api.tenant import TenantKVCache
from tenantry_api.values import Part

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A spec that is refused at `path` with `message`; `server` is what the API server says when
    its schema, not a rule of ours, refuses."""

    id: str
    spec: Json
    path: str
    message: str
    server: str = ""

    @property
    def expected(self) -> str:
        """What the API server's answer must hold."""
        return self.server or self.message


def a_policy(spec: Json | None = None, name: str = "chat") -> dict[str, Any]:
    """A whole document: the smallest valid spec with the fields of `spec` over it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"model": {"name": "m"}, **(spec or {})},
    }


def _rule(kind: type[Part], number: int) -> str:
    return rules.RULES[kind][number].message


def _tenants(*tenants: Json) -> Json:
    return {"tenants": list(tenants)}


def _tenant(**fields: Any) -> Json:
    return _tenants({"name": "gold", **fields})


def _args(*args: str) -> Json:
    return {"engine": {"args": list(args)}}


_OWNED = (
    ("--port=9", "an owned argument with an equals sign"),
    ("--port", "an owned argument whose value is the next item"),
    ("--port 9", "an owned argument and its value in one item"),
    ("--scheduler-cls=x.Y", "another scheduler class"),
    ("--scheduler_cls=x.Y", "underscores in place of dashes"),
    ("--middleware=x.y", "middleware"),
    ("--host=0.0.0.0", "host"),
    ("--served-model-name=x", "served-model-name"),
    ("--served_model_name", "served_model_name"),
    ("--tensor-parallel-size=2", "tensor-parallel-size"),
    ("-tp=2", "the short form of tensor-parallel-size"),
    ("--pipeline-parallel-size=2", "pipeline-parallel-size"),
    ("--data-parallel-size=2", "data-parallel-size"),
    ("--scheduling-policy=priority", "scheduling-policy"),
    ("--model=x", "model"),
    ("--served-mod=x", "the beginning of served-model-name"),
    ("--por=9", "the beginning of port"),
    ("--tensor_par", "the beginning of tensor_parallel_size"),
)

_BAD_WEIGHTS = (
    (-1, "a negative weight"),
    (1_000_001, "a weight above a million"),
    ("-1", "a negative weight in quotes"),
    ("2M", "two million"),
    ("three", "a weight in words"),
    ("60%", "a weight in percent"),
    ("0.0001", "a weight finer than a thousandth"),
    ("1e3", "a weight with an exponent"),
    ("", "an empty weight"),
    ("3\n", "a weight with a line end"),
)

_BAD_DURATIONS = ("5", "0s", "-1s", "1 s", "1d", "200h", "fast", "1s\n")

_BAD_SHARES = ("0.3", "0.7", "1", "0.9", "0", "0.01", "2")

_BAD_NETWORKS = (
    "10.0.0.0",
    "10.0.0.0/33",
    "10.0.0.0/255.0.0.0",
    "10.0.0/8",
    "gateway",
    "10.0.0.0/08",
    "fe80::%eth0/64",
    "",
)

_BAD_TENANT_NAMES = (
    (" gold", "a space in front"),
    ("gold ", "a space behind"),
    (" ", "a space alone"),
    ("go\tld", "a tab"),
    ("go\nld", "a line end inside"),
    ("gold\n", "a line end behind"),
    ("go\u200bld", "a character without a width"),
    ("go\u00a0ld", "a space that does not break"),
)

_CUT = (
    *(
        Refusal(f"args: {words}", _args(arg), "spec.engine.args[0]", OWNED_MESSAGE)
        for arg, words in _OWNED
    ),
    *(
        Refusal(
            f"tenant: {words}",
            _tenant(weight=weight),
            "spec.tenants[0].weight",
            values.QUANTITY_MESSAGE,
        )
        for weight, words in _BAD_WEIGHTS
    ),
    *(
        Refusal(
            f"tokenDelay {value!r}",
            {"scheduling": {"tokenDelay": value}},
            "spec.scheduling.tokenDelay",
            values.DURATION_MESSAGE,
        )
        for value in _BAD_DURATIONS
    ),
    *(
        Refusal(
            f"share {value}",
            {"gpu": {"sharing": "MPS", "share": value}},
            "spec.gpu.share",
            _rule(Gpu, 3),
        )
        for value in _BAD_SHARES
    ),
    *(
        Refusal(
            f"trusted peer {value!r}",
            {"identity": {"trustedPeers": [value]}},
            "spec.identity.trustedPeers[0]",
            CIDR_MESSAGE,
        )
        for value in _BAD_NETWORKS
    ),
    *(
        Refusal(
            f"tenant: {words} in a name",
            _tenants({"name": name}),
            "spec.tenants[0].name",
            tenant.NAME_MESSAGE,
        )
        for name, words in _BAD_TENANT_NAMES
    ),
)

_TYPES = (
    Refusal("no model", {"model": None}, "spec.model", "is required", "spec.model: Required value"),
    Refusal(
        "an unknown field",
        {"scheduling": {"odering": "FIFO"}},
        "spec.scheduling.odering",
        "did you mean `ordering`?",
        'unknown field "spec.scheduling.odering"',
    ),
    Refusal(
        "a field in snake case",
        {"kv_cache": {}},
        "spec.kv_cache",
        "did you mean `kvCache`?",
        'unknown field "spec.kv_cache"',
    ),
    Refusal(
        "a mode in lower case",
        {"scheduling": {"mode": "enforce"}},
        "spec.scheduling.mode",
        "must be 'Enforce', 'Observe' or 'Off'",
        'supported values: "Enforce", "Observe", "Off"',
    ),
    Refusal(
        "the mode Off without quotes",
        {"scheduling": {"mode": False}},
        "spec.scheduling.mode",
        "put it in quotes: YAML reads it as true or false",
        "spec.scheduling.mode",
    ),
    Refusal(
        "a count in quotes",
        {"gpu": {"count": "2"}},
        "spec.gpu.count",
        "must be a whole number",
        "spec.gpu.count",
    ),
    Refusal(
        "a fraction of a request",
        _tenant(limits={"inFlight": 3.5}),
        "spec.tenants[0].limits.inFlight",
        "must be a whole number",
        "spec.tenants[0].limits.inFlight",
    ),
    Refusal(
        "a fraction without quotes as a weight",
        _tenant(weight=0.5),
        "spec.tenants[0].weight",
        values.QUANTITY_MESSAGE,
        "spec.tenants[0].weight",
    ),
    Refusal(
        "a boolean as a weight",
        _tenant(weight=True),
        "spec.tenants[0].weight",
        values.QUANTITY_MESSAGE,
        "spec.tenants[0].weight",
    ),
    Refusal(
        "a boolean as a tenant",
        _tenants({"name": False}),
        "spec.tenants[0].name",
        "put it in quotes: YAML reads it as true or false",
        "spec.tenants[0].name",
    ),
    Refusal(
        "a number as a tenant",
        _tenants({"name": 123}),
        "spec.tenants[0].name",
        "put it in quotes: YAML reads it as a number",
        "spec.tenants[0].name",
    ),
    Refusal(
        "a number as a duration",
        {"scheduling": {"tokenDelay": 5}},
        "spec.scheduling.tokenDelay",
        values.DURATION_MESSAGE,
        "spec.scheduling.tokenDelay",
    ),
    Refusal(
        "a percentage above 100",
        {"kvCache": {"highWatermarkPercent": 101}},
        "spec.kvCache.highWatermarkPercent",
        "must be less than or equal to 100",
        "should be less than or equal to 100",
    ),
    Refusal(
        "tenants as a mapping",
        {"tenants": {"gold": 3}},
        "spec.tenants",
        "must be a list",
        "spec.tenants",
    ),
    Refusal(
        "an empty tenant name",
        _tenants({"name": ""}),
        "spec.tenants[0].name",
        tenant.NAME_MESSAGE,
        "spec.tenants[0].name",
    ),
    Refusal(
        "a tenant name of 129 characters",
        _tenants({"name": "g" * 129}),
        "spec.tenants[0].name",
        tenant.NAME_MESSAGE,
        "spec.tenants[0].name",
    ),
    Refusal(
        "65 tenants",
        _tenants(*({"name": f"t{number}"} for number in range(65))),
        "spec.tenants",
        "at most 64 items",
        "must have at most 64 items",
    ),
    Refusal(
        "no trusted peer",
        {"identity": {"trustedPeers": []}},
        "spec.identity.trustedPeers",
        "at least 1 item",
        "should have at least 1 items",
    ),
    Refusal(
        "identity without trusted peers",
        {"identity": {"header": "X-Team"}},
        "spec.identity.trustedPeers",
        "is required",
        "spec.identity.trustedPeers: Required value",
    ),
    Refusal(
        "a template as a text",
        {"engine": {"template": "spec: {}"}},
        "spec.engine.template",
        "must be a mapping",
        "spec.engine.template",
    ),
)

_RULES = (
    Refusal(
        "the tenant other",
        _tenants({"name": "other"}),
        "spec.tenants[0].name",
        tenant.OTHER_MESSAGE,
    ),
    Refusal(
        "a tenant twice",
        _tenants({"name": "gold"}, {"name": "free"}, {"name": "gold", "weight": 2}),
        "spec.tenants",
        "tenants must have different names",
        "Duplicate value",
    ),
    Refusal(
        "nobody has a weight",
        _tenants({"name": "gold", "weight": 0}, {"name": "free", "weight": "0"}),
        "spec.tenants",
        _rule(Spec, 1),
    ),
    Refusal(
        "reserves above 100 percent",
        _tenants(
            {"name": "gold", "kvCache": {"reservePercent": 60}},
            {"name": "free", "kvCache": {"reservePercent": 41}},
        ),
        "spec.tenants",
        _rule(Spec, 2),
    ),
    Refusal(
        "refusing without identity",
        {"unknownTenant": "Refuse"},
        "spec.unknownTenant",
        _rule(Spec, 3),
    ),
    Refusal(
        "a reserve above the limit",
        _tenant(kvCache={"reservePercent": 60, "limitPercent": 50}),
        "spec.tenants[0].kvCache.reservePercent",
        _rule(TenantKVCache, 0),
    ),
    Refusal(
        "watermarks that meet",
        {"kvCache": {"lowWatermarkPercent": 10}},
        "spec.kvCache.lowWatermarkPercent",
        _rule(KVCache, 0),
    ),
    Refusal(
        "replicas beside autoscaling",
        {"engine": {"replicas": 2, "autoscaling": {"max": 4}}},
        "spec.engine.replicas",
        _rule(Engine, 0),
    ),
    Refusal(
        "more replicas at least than at most",
        {"engine": {"autoscaling": {"min": 5, "max": 4}}},
        "spec.engine.autoscaling.min",
        _rule(Autoscaling, 0),
    ),
    Refusal(
        "two sources",
        {"model": {"name": "m", "source": {"hub": {}, "path": "/m"}}},
        "spec.model.source",
        _rule(Source, 0),
    ),
    Refusal(
        "no source", {"model": {"name": "m", "source": {}}}, "spec.model.source", _rule(Source, 0)
    ),
    Refusal(
        "a relative path",
        {"model": {"name": "m", "source": {"path": "m"}}},
        "spec.model.source.path",
        _rule(Source, 1),
    ),
    Refusal(
        "a path out of the volume",
        {"model": {"name": "m", "source": {"claim": {"name": "c", "path": "../m"}}}},
        "spec.model.source.claim.path",
        "path must be a folder inside the volume",
    ),
    Refusal(
        "two GPUs in parts",
        {"gpu": {"sharing": "MPS", "share": "0.5", "count": 2}},
        "spec.gpu.count",
        _rule(Gpu, 0),
    ),
    Refusal(
        "two MIG instances",
        {"gpu": {"sharing": "MIG", "migProfile": "1g.10gb", "count": 2}},
        "spec.gpu.count",
        _rule(Gpu, 0),
    ),
    Refusal("MPS without a share", {"gpu": {"sharing": "MPS"}}, "spec.gpu.share", _rule(Gpu, 1)),
    Refusal(
        "time-slicing without a share",
        {"gpu": {"sharing": "TimeSlicing"}},
        "spec.gpu.share",
        _rule(Gpu, 1),
    ),
    Refusal("a share of whole GPUs", {"gpu": {"share": "0.5"}}, "spec.gpu.share", _rule(Gpu, 2)),
    Refusal(
        "MIG without a profile", {"gpu": {"sharing": "MIG"}}, "spec.gpu.migProfile", _rule(Gpu, 4)
    ),
    Refusal(
        "a MIG profile of whole GPUs",
        {"gpu": {"migProfile": "3g.40gb"}},
        "spec.gpu.migProfile",
        _rule(Gpu, 5),
    ),
    Refusal(
        "a profile that is none",
        {"gpu": {"sharing": "MIG", "migProfile": "big"}},
        "spec.gpu.migProfile",
        _rule(Gpu, 6),
    ),
    Refusal(
        "a dedicated deployment on parts without a share",
        _tenant(dedicated={"gpu": {"sharing": "MPS"}}),
        "spec.tenants[0].dedicated.gpu.share",
        _rule(Gpu, 1),
    ),
    Refusal(
        "a header with a space",
        {"identity": {"header": "X Tenant", "trustedPeers": ["::/0"]}},
        "spec.identity.header",
        HEADER_MESSAGE,
    ),
    Refusal(
        "a priority class in capitals",
        {"priorityClassName": "Critical"},
        "spec.priorityClassName",
        values.NAME_MESSAGE,
    ),
    Refusal(
        "a step budget that is no duration",
        {"scheduling": {"stepBudget": "often"}},
        "spec.scheduling.stepBudget",
        "must be `auto`, or a duration",
    ),
)

REFUSALS = (*_TYPES, *_RULES, *_CUT)

BAD_NAMES = ("Chat", "1chat", "chat.v2", "c" * 64, "chat-")
NAME_MESSAGE = f"metadata.name {parse.NAME_MESSAGE}"
