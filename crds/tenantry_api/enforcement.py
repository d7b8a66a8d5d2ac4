"""What this version does with each field, and which paths of a policy it does not honour yet.

Every leaf of the spec is in exactly one place: `EFFECTIVE`, or `MENTIONS` with the values that ask
for nothing. A field that is in neither fails a test.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import document
from tenantry_api.choices import Mode, Ordering
from tenantry_api.policy import TenantServingPolicy

# Leaves, or objects with all their leaves, that have their full effect.
EFFECTIVE = (
    "model",
    "engine.image",
    "engine.replicas",
    "engine.args",
    "engine.template",
    "gpu",
    "priorityClassName",
    "weight",
    "identity",
    "unknownTenant",
    "scheduling.mode",
    "scheduling.fairness",
    "scheduling.stepBudget",
    "kvCache.isolation",
    "tenants[].name",
    "tenants[].weight",
    "tenants[].tier",
)

_ENFORCE = frozenset({Mode.ENFORCE})
_ENGINE = frozenset({Mode.ENFORCE, Mode.OBSERVE})
_ALWAYS = frozenset(Mode)


@dataclass(frozen=True)
class Mention:
    """`path` is mentioned when present, in one of `modes`, and not one of the `idle` values.

    `partly`: what is asked for by some values is honoured.
    """

    path: str
    modes: frozenset[Mode] = _ENFORCE
    idle: tuple[Any, ...] = ()
    unless: Callable[[Mapping[str, Any]], bool] = lambda _spec: False
    partly: bool = False


MENTIONS = (
    Mention("engine.autoscaling", _ALWAYS),
    # No deadline of a request reaches the engine, so this one is the order of arrival.
    Mention(
        "scheduling.ordering",
        idle=tuple(each for each in Ordering if each is not Ordering.DEADLINE),
        partly=True,
    ),
    Mention("scheduling.tokenDelay"),
    Mention("kvCache.eviction"),
    Mention("kvCache.lowWatermarkPercent"),
    Mention("kvCache.highWatermarkPercent"),
    Mention("tenants[].kvCache.reservePercent", idle=(0,)),
    Mention("tenants[].kvCache.limitPercent", idle=(100,)),
    # A group has its effect with isolation Group and none without it.
    Mention(
        "tenants[].kvCache.group",
        unless=lambda spec: bool(spec["kvCache"]["isolation"] == "Group"),
        partly=True,
    ),
    Mention("tenants[].objectives.ttft.p99", _ENGINE),
    Mention("tenants[].objectives.itl.p99", _ENGINE),
    Mention("tenants[].objectives.e2e.p99", _ENGINE),
    Mention("tenants[].limits.inFlight"),
    Mention("tenants[].limits.queued"),
    Mention("tenants[].limits.queuedTokens"),
    Mention("tenants[].limits.queueTimeout"),
    Mention("tenants[].limits.tokensPerMinute"),
    Mention("tenants[].identity.apiKeySecret", _ENGINE),
    Mention("tenants[].dedicated", _ALWAYS),
)


def unenforced(policy: TenantServingPolicy) -> tuple[str, ...]:
    """The paths whose effective value, defaults included, this version does not honour.

    A tenant's paths carry its name: `spec.tenants[gold].limits.inFlight`. In mode Observe and Off
    the policy itself asks for less, so less is mentioned.
    """
    spec = document.as_dict(policy)["spec"]
    mode = policy.spec.scheduling.mode
    return tuple(
        path
        for mention in MENTIONS
        if mode in mention.modes and not mention.unless(spec)
        for path, value in _at(spec, mention.path.split("."), "spec")
        if value not in mention.idle
    )


def is_mentioned(path: str) -> bool:
    """Whether the field at `path` (`tenants[].limits.inFlight`), or the object it is in, is one
    that this version does not honour at all."""
    return any(
        path == mention.path or path.startswith(f"{mention.path}.")
        for mention in MENTIONS
        if not mention.partly
    )


def _at(body: Mapping[str, Any], steps: list[str], path: str) -> Iterator[tuple[str, Any]]:
    head, *rest = steps
    name = head.removesuffix("[]")
    if name not in body:
        return
    if head.endswith("[]"):
        for item in body[name]:
            yield from _at(item, rest, f"{path}.{name}[{item['name']}]")
    elif rest:
        yield from _at(body[name], rest, f"{path}.{name}")
    else:
        yield f"{path}.{name}", body[name]
