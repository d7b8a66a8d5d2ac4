"""Every name that two parts have to agree on, once.

Constants are words of the contract; the functions make names out of other names.
"""

import hashlib
import re

GROUP = "tenantry.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "TenantServingPolicy"
PLURAL = "tenantservingpolicies"
SINGULAR = "tenantservingpolicy"
SHORT_NAME = "tsp"
CATEGORY = "tenantry"

LABEL_POLICY = f"{GROUP}/policy"
LABEL_TENANT = f"{GROUP}/tenant"
LABEL_NAMESPACE_WEIGHT = f"{GROUP}/weight"
ANNOTATION_POLICY_HASH = f"{GROUP}/policy-hash"
ANNOTATION_POKE = f"{GROUP}/poked-at"

FIELD_MANAGER = "tenantry-operator"
SCHEDULER_NAME = "tenantry-scheduler"
PRIORITY_CLASSES = ("tenantry-critical", "tenantry-standard", "tenantry-batch")
DEFAULT_PRIORITY_CLASS = "tenantry-standard"

POLICY_FILE_KEY = "policy.json"
POLICY_MOUNT = "/etc/tenantry"
POLICY_PATH = f"{POLICY_MOUNT}/{POLICY_FILE_KEY}"
MODEL_MOUNT = "/models"

ENV_POLICY = "TENANTRY_POLICY"
ENV_SHARE = "VLLM_SCHEDULER_TENANT_SHARE"
ENV_TRUSTED_PEERS = "TENANTRY_TRUSTED_PEERS"
ENV_TENANT_HEADER = "TENANTRY_TENANT_HEADER"
ENV_METRICS_PORT = "TENANTRY_METRICS_PORT"

SCHEDULER_CLASS = "tenantry_engine.scheduler.TenantryScheduler"
MIDDLEWARE = "tenantry_engine.door.Door"
EXTRA_ARG = "tenantry"
DEFAULT_HEADER = "X-Tenant-ID"

DEFAULT_TENANT = "default"
OTHER_TENANT = "other"

PORT_HTTP = 8000
PORT_METRICS = 8001

NAME_LIMIT = 63
_SLUG_LIMIT = 24
_HASH_DIGITS = 8


def tenant_slug(name: str) -> str:
    """A label value and DNS label (at most 33 characters) for a tenant of any name.

    The hash at the end keeps apart what the readable part does not: `Team A` and `team-a`.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_SLUG_LIMIT].strip("-")
    return f"{readable or 't'}-{_digest(name)}"


def dedicated_name(policy: str, tenant: str) -> str:
    """The name of the objects of a tenant's own deployment beside the policy's shared one."""
    slug = tenant_slug(tenant)
    room = NAME_LIMIT - len(slug) - 1
    if len(policy) <= room:
        return f"{policy}-{slug}"
    head = policy[: room - _HASH_DIGITS - 1].strip("-")
    return f"{head}-{_digest(policy)}-{slug}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
