"""Documents in which one value is none of its kind."""

from tenantry_api import tenant, values
from tenantry_api.engine import MODEL_MESSAGE, OWNED_MESSAGE
from tenantry_api.gpu import Gpu
from tenantry_api.policy import CIDR_MESSAGE
from tenantry_api.tests.refusal import Refusal, a_tenant, message_of, tenants

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

_BAD_MODELS = ("--trust-remote-code", "-", "a b", "a\n", " a", "a\t", "a\x7f")

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

VALUES = (
    *(
        Refusal(f"args: {words}", {"engine": {"args": [arg]}}, "spec.engine.args[0]", OWNED_MESSAGE)
        for arg, words in _OWNED
    ),
    *(
        Refusal(
            f"tenant: {words}",
            a_tenant(weight=weight),
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
            message_of(Gpu, 3),
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
            tenants({"name": name}),
            "spec.tenants[0].name",
            tenant.NAME_MESSAGE,
        )
        for name, words in _BAD_TENANT_NAMES
    ),
    *(
        Refusal(f"model {name!r}", {"model": {"name": name}}, "spec.model.name", MODEL_MESSAGE)
        for name in _BAD_MODELS
    ),
)

TYPES = (
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
        a_tenant(limits={"inFlight": 3.5}),
        "spec.tenants[0].limits.inFlight",
        "must be a whole number",
        "spec.tenants[0].limits.inFlight",
    ),
    Refusal(
        "a fraction without quotes as a weight",
        a_tenant(weight=0.5),
        "spec.tenants[0].weight",
        values.QUANTITY_MESSAGE,
        "spec.tenants[0].weight",
    ),
    Refusal(
        "a boolean as a weight",
        a_tenant(weight=True),
        "spec.tenants[0].weight",
        values.QUANTITY_MESSAGE,
        "spec.tenants[0].weight",
    ),
    Refusal(
        "a boolean as a tenant",
        tenants({"name": False}),
        "spec.tenants[0].name",
        "put it in quotes: YAML reads it as true or false",
        "spec.tenants[0].name",
    ),
    Refusal(
        "a number as a tenant",
        tenants({"name": 123}),
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
        tenants({"name": ""}),
        "spec.tenants[0].name",
        tenant.NAME_MESSAGE,
        "spec.tenants[0].name",
    ),
    Refusal(
        "a tenant name of 129 characters",
        tenants({"name": "g" * 129}),
        "spec.tenants[0].name",
        tenant.NAME_MESSAGE,
        "spec.tenants[0].name",
    ),
    Refusal(
        "65 tenants",
        tenants(*({"name": f"t{number}"} for number in range(65))),
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
