"""Documents that break what no type can say."""

from tenantry_api import tenant, values
from tenantry_api.engine import Autoscaling, Engine, KVCache, Source
from tenantry_api.gpu import Gpu
from tenantry_api.policy import HEADER_MESSAGE, Spec
from tenantry_api.tenant import TenantKVCache
from tenantry_api.tests.refusal import Refusal, a_tenant, message_of, tenants

RULES = (
    Refusal(
        "the tenant other",
        tenants({"name": "other"}),
        "spec.tenants[0].name",
        tenant.OTHER_MESSAGE,
    ),
    Refusal(
        "a tenant twice",
        tenants({"name": "gold"}, {"name": "free"}, {"name": "gold", "weight": 2}),
        "spec.tenants",
        "tenants must have different names",
        "Duplicate value",
    ),
    Refusal(
        "nobody has a weight",
        tenants({"name": "gold", "weight": 0}, {"name": "free", "weight": "0"}),
        "spec.tenants",
        message_of(Spec, 1),
    ),
    Refusal(
        "reserves above 100 percent",
        tenants(
            {"name": "gold", "kvCache": {"reservePercent": 60}},
            {"name": "free", "kvCache": {"reservePercent": 41}},
        ),
        "spec.tenants",
        message_of(Spec, 2),
    ),
    Refusal(
        "refusing without identity",
        {"unknownTenant": "Refuse"},
        "spec.unknownTenant",
        message_of(Spec, 3),
    ),
    Refusal(
        "a reserve above the limit",
        a_tenant(kvCache={"reservePercent": 60, "limitPercent": 50}),
        "spec.tenants[0].kvCache.reservePercent",
        message_of(TenantKVCache, 0),
    ),
    Refusal(
        "watermarks that meet",
        {"kvCache": {"lowWatermarkPercent": 10}},
        "spec.kvCache.lowWatermarkPercent",
        message_of(KVCache, 0),
    ),
    Refusal(
        "replicas beside autoscaling",
        {"engine": {"replicas": 2, "autoscaling": {"max": 4}}},
        "spec.engine.replicas",
        message_of(Engine, 0),
    ),
    Refusal(
        "more replicas at least than at most",
        {"engine": {"autoscaling": {"min": 5, "max": 4}}},
        "spec.engine.autoscaling.min",
        message_of(Autoscaling, 0),
    ),
    Refusal(
        "two sources",
        {"model": {"name": "m", "source": {"hub": {}, "path": "/m"}}},
        "spec.model.source",
        message_of(Source, 0),
    ),
    Refusal(
        "no source",
        {"model": {"name": "m", "source": {}}},
        "spec.model.source",
        message_of(Source, 0),
    ),
    Refusal(
        "a relative path",
        {"model": {"name": "m", "source": {"path": "m"}}},
        "spec.model.source.path",
        message_of(Source, 1),
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
        message_of(Gpu, 0),
    ),
    Refusal(
        "two MIG instances",
        {"gpu": {"sharing": "MIG", "migProfile": "1g.10gb", "count": 2}},
        "spec.gpu.count",
        message_of(Gpu, 0),
    ),
    Refusal(
        "MPS without a share", {"gpu": {"sharing": "MPS"}}, "spec.gpu.share", message_of(Gpu, 1)
    ),
    Refusal(
        "time-slicing without a share",
        {"gpu": {"sharing": "TimeSlicing"}},
        "spec.gpu.share",
        message_of(Gpu, 1),
    ),
    Refusal(
        "a share of whole GPUs", {"gpu": {"share": "0.5"}}, "spec.gpu.share", message_of(Gpu, 2)
    ),
    Refusal(
        "MIG without a profile",
        {"gpu": {"sharing": "MIG"}},
        "spec.gpu.migProfile",
        message_of(Gpu, 4),
    ),
    Refusal(
        "a MIG profile of whole GPUs",
        {"gpu": {"migProfile": "3g.40gb"}},
        "spec.gpu.migProfile",
        message_of(Gpu, 5),
    ),
    Refusal(
        "a profile that is none",
        {"gpu": {"sharing": "MIG", "migProfile": "big"}},
        "spec.gpu.migProfile",
        message_of(Gpu, 6),
    ),
    Refusal(
        "a dedicated deployment on parts without a share",
        a_tenant(dedicated={"gpu": {"sharing": "MPS"}}),
        "spec.tenants[0].dedicated.gpu.share",
        message_of(Gpu, 1),
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
