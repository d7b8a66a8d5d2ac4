"""What an engine process knows of its policy, and where it knows it from.

Sources, the first that is there: the policy file that `TENANTRY_POLICY` names, the weights in
`VLLM_SCHEDULER_TENANT_SHARE`, nothing (then everybody is the tenant `default`). The environment and
the reading of files are arguments, so every form of input is a table row in a test.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tenantry_api import document, enforcement, names, parse
from tenantry_api.choices import (
    Eviction,
    Fairness,
    Isolation,
    Mode,
    Ordering,
    Tier,
    UnknownTenant,
)
from tenantry_api.policy import TenantServingPolicy
from tenantry_core import tenants

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# A child of vLLM's own logger: our lines have its format and obey its level.
LOGGER_NAME: Final = "vllm.tenantry"
LOOPBACK: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("::1/128"),
)
# What the operator does with a policy. An engine that somebody started by hand cannot.
CLUSTER_FIELDS: Final = ("model", "engine", "gpu", "priorityClassName", "weight")
# In the order in which they are served.
TIERS: Final = (Tier.CRITICAL, Tier.STANDARD, Tier.BATCH)
# vLLM's list of the plugins that it may call; unset means all.
PLUGINS: Final = "VLLM_PLUGINS"
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PORTS: Final = range(65536)


class ConfigError(ValueError):
    """The policy or a variable cannot be used. The text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The part of a policy that an engine acts on.

    `weights` holds the tenants that were named; everybody else has `default_weight`. With
    `open_tenants` every well-formed name is a tenant of its own, otherwise only those in `tenants`
    (and `default`).
    `step_budget` is in seconds, None means auto. `notices` are sentences for the log, once.
    """

    policy: str = names.DEFAULT_TENANT
    mode: Mode = Mode.ENFORCE
    fairness: Fairness = Fairness.GPU_TIME
    ordering: Ordering = Ordering.COST
    eviction: Eviction = Eviction.LRU
    step_budget: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    default_weight: float = 1.0
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    tenants: tuple[str, ...] = ()
    open_tenants: bool = False
    header: str = names.DEFAULT_HEADER
    trusted_peers: tuple[Network, ...] = ()
    unknown_tenant: UnknownTenant = UnknownTenant.DEFAULT
    isolation: Isolation = Isolation.TENANT
    groups: Mapping[str, str] = field(default_factory=dict)
    hash: str = ""
    notices: tuple[str, ...] = field(default=(), compare=False)

    def weight_of(self, tenant: str) -> float:
        """The weight of a tenant; 0 means: served when nobody else waits."""
        return self.weights.get(tenant, self.default_weight)

    def tier_of(self, tenant: str) -> int:
        """The band of a tenant among those with a weight: 0 is served first."""
        return TIERS.index(self.tiers.get(tenant, Tier.STANDARD))

    @property
    def known(self) -> tuple[str, ...]:
        """The tenants whose series exist from the start: those that were named, and `default`."""
        return tuple(dict.fromkeys((*self.tenants, names.DEFAULT_TENANT)))


def load(environ: Mapping[str, str], read: Callable[[str], str]) -> EngineConfig:
    """The configuration of this process; `read` takes a path. Raises ConfigError."""
    _plugin_is_called(environ)
    path, share = environ.get(names.ENV_POLICY), environ.get(names.ENV_SHARE)
    if path:
        return _from_file(path, environ, read)
    if share is not None:
        return _from_share(share, environ)
    return EngineConfig(
        open_tenants=True,
        hash=document.policy_hash(b""),
        notices=_ignored(
            environ,
            names.ENV_TRUSTED_PEERS,
            names.ENV_TENANT_HEADER,
            why="without tenants",
        ),
    )


def metrics_port(environ: Mapping[str, str]) -> int:
    """The port of the engine process's own metrics; 0 = none. Raises ConfigError."""
    text = environ.get(names.ENV_METRICS_PORT, str(names.PORT_METRICS)).strip()
    if not (text.isascii() and text.isdigit() and int(text) in _PORTS):
        raise ConfigError(
            f"{names.ENV_METRICS_PORT}={text!r} is not a port: give a number from 1 to 65535, "
            "or 0 for no metrics of the engine process"
        )
    return int(text)


def _plugin_is_called(environ: Mapping[str, str]) -> None:
    allowed = environ.get(PLUGINS)
    if allowed is not None and "tenantry" not in allowed.split(","):
        raise ConfigError(
            f"{PLUGINS}={allowed!r} leaves out the plugin `tenantry`, which keeps clients from "
            "naming their own tenant: add it"
        )


def _from_file(path: str, environ: Mapping[str, str], read: Callable[[str], str]) -> EngineConfig:
    try:
        policy = parse.text(read(path), path)
    except parse.Invalid as error:
        raise ConfigError(f"{names.ENV_POLICY}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{names.ENV_POLICY}={path} cannot be read ({why}): give the path of a "
            f"{names.KIND} in YAML or JSON that this process may read"
        ) from error
    return of_policy(policy, notices=_notices(policy, environ))


def of_policy(policy: TenantServingPolicy, notices: tuple[str, ...] = ()) -> EngineConfig:
    """The engine's part of a parsed policy."""
    spec = policy.spec
    identity = spec.identity
    return EngineConfig(
        policy=policy.metadata.name,
        mode=spec.scheduling.mode,
        fairness=spec.scheduling.fairness,
        ordering=spec.scheduling.ordering,
        eviction=spec.kv_cache.eviction,
        step_budget=spec.scheduling.step_budget_seconds,
        weights={tenant.name: float(tenant.weight) for tenant in spec.tenants},
        tiers={tenant.name: tenant.tier for tenant in spec.tenants},
        tenants=tuple(tenant.name for tenant in spec.tenants),
        header=identity.header if identity else names.DEFAULT_HEADER,
        trusted_peers=_networks(identity.trusted_peers) if identity else (),
        unknown_tenant=spec.unknown_tenant,
        isolation=spec.kv_cache.isolation,
        groups={t.name: t.kv_cache.group for t in spec.tenants if t.kv_cache and t.kv_cache.group},
        hash=document.policy_hash(document.canonical(policy)),
        notices=notices,
    )


def _from_share(text: str, environ: Mapping[str, str]) -> EngineConfig:
    try:
        shares = tenants.parse_shares(text)
    except ValueError as error:
        raise ConfigError(f"{names.ENV_SHARE}: {error}") from error
    named = shares.tenants.weights
    weights = {name: float(weight) for name, weight in named.items()}
    # `*` speaks of tenants that somebody names in a header; `default` is everybody else.
    weights.setdefault(names.DEFAULT_TENANT, 1.0)
    return EngineConfig(
        weights=weights,
        default_weight=float(shares.tenants.rest),
        tenants=tuple(named),
        open_tenants=True,
        header=_header(environ),
        trusted_peers=_peers(environ),
        hash=document.policy_hash(text.encode()),
        notices=shares.notices,
    )


def _header(environ: Mapping[str, str]) -> str:
    name = environ.get(names.ENV_TENANT_HEADER, names.DEFAULT_HEADER).strip()
    if not _HEADER.fullmatch(name):
        raise ConfigError(
            f"{names.ENV_TENANT_HEADER}={name!r} is not the name of an HTTP header: "
            f"give one such as {names.DEFAULT_HEADER}"
        )
    return name


def _peers(environ: Mapping[str, str]) -> tuple[Network, ...]:
    text = environ.get(names.ENV_TRUSTED_PEERS)
    if text is None:
        return LOOPBACK
    items = [item.strip() for item in text.split(",") if item.strip()]
    try:
        return _networks(items)
    except ValueError as error:
        raise ConfigError(
            f"{names.ENV_TRUSTED_PEERS}: {error}: give networks such as 10.0.0.0/8, "
            "separated by commas"
        ) from error


def _networks(items: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(item, strict=False) for item in items)


def _notices(policy: TenantServingPolicy, environ: Mapping[str, str]) -> tuple[str, ...]:
    ignored = _ignored(
        environ,
        names.ENV_SHARE,
        names.ENV_TRUSTED_PEERS,
        names.ENV_TENANT_HEADER,
        why=f"because {names.ENV_POLICY} is set: the policy wins",
    )
    found = list(ignored)
    if IN_CLUSTER not in environ and (paths := _cluster_paths(policy)):
        found.append(f"only a cluster can honour these fields, ignored here: {', '.join(paths)}")
    if paths := enforcement.unenforced(policy):
        found.append(f"this version does not enforce: {', '.join(paths)}")
    return tuple(found)


def _ignored(environ: Mapping[str, str], *variables: str, why: str) -> tuple[str, ...]:
    return tuple(f"{name} has no effect {why}" for name in variables if name in environ)


def _cluster_paths(policy: TenantServingPolicy) -> tuple[str, ...]:
    """What the policy asks of a cluster, beyond what it would say if left out."""
    asked = document.as_dict(policy)["spec"]
    least = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": policy.metadata.name},
        "spec": {"model": {"name": "any"}},
    }
    bare = document.as_dict(parse.policy(least))["spec"]
    return tuple(f"spec.{field}" for field in CLUSTER_FIELDS if asked[field] != bare[field])
