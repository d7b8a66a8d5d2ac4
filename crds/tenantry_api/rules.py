"""What no type can say: one table, a CEL rule for the API server beside the same rule in Python.

A rule looks at one object of the document after defaults are filled in, as the API server does.
`holds` may raise on an object whose parts have the wrong shape: another finding says that already,
and `broken` passes over it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api.engine import Autoscaling, Claim, Engine, Image, KVCache, Source
from tenantry_api.gpu import MIG_PATTERN, SHARE_TOLERANCE, SPLITS, Gpu, neighbours, split_of
from tenantry_api.policy import Spec
from tenantry_api.tenant import TenantKVCache
from tenantry_api.values import Part, quantity

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """`field` is the child that a finding points at; `detail` adds what only the value tells."""

    cel: str
    message: str
    holds: Callable[[Json], bool]
    field: str = ""
    detail: Callable[[Json], str] | None = None


def _share_is_a_split(gpu: Json) -> bool:
    return "share" not in gpu or split_of(quantity(gpu["share"])) is not None


def _neighbours(gpu: Json) -> str:
    larger, smaller = neighbours(quantity(gpu["share"]))
    return f'the nearest are "{1 / larger:.3f}" (1/{larger}) and "{1 / smaller:.3f}" (1/{smaller})'


def _inside(folder: str) -> bool:
    return not folder.startswith("/") and ".." not in folder.split("/")


def _some_weight(spec: Json) -> bool:
    tenants = spec["tenants"]
    return not tenants or any(quantity(tenant["weight"]) > 0 for tenant in tenants)


def _names_differ(spec: Json) -> bool:
    every = [tenant["name"] for tenant in spec["tenants"]]
    return len(every) == len(set(every))


def _twice(spec: Json) -> str:
    every = [tenant["name"] for tenant in spec["tenants"]]
    return "twice: " + ", ".join(sorted({name for name in every if every.count(name) > 1}))


_INSIDE = Rule(
    "!self.path.startsWith('/') && !self.path.split('/').exists(p, p == '..')",
    "path must be a folder inside the volume: relative, without `..`",
    lambda body: _inside(body["path"]),
    field="path",
)
_SHARE_CEL = (
    "!has(self.share) || (type(self.share) == int ? false : "
    "quantity(self.share).asApproximateFloat() < 0.667 && "
    "quantity(self.share).asApproximateFloat() > 0.02062 && "
    f"{list(SPLITS)}.exists(n, "
    f"quantity(self.share).asApproximateFloat() - 1.0 / double(n) <= {SHARE_TOLERANCE} && "
    f"1.0 / double(n) - quantity(self.share).asApproximateFloat() <= {SHARE_TOLERANCE}))"
)

RULES: Mapping[type[Part], tuple[Rule, ...]] = {
    Claim: (_INSIDE,),
    Image: (_INSIDE,),
    Source: (
        Rule(
            "[has(self.hub), has(self.claim), has(self.image), has(self.path)]"
            ".filter(given, given).size() == 1",
            "give exactly one of hub, claim, image and path",
            lambda source: len(source.keys() & {"hub", "claim", "image", "path"}) == 1,
        ),
        Rule(
            "!has(self.path) || self.path.startsWith('/')",
            "path must be absolute: the engine's image or template brings it",
            lambda source: "path" not in source or source["path"].startswith("/"),
            field="path",
        ),
    ),
    Autoscaling: (
        Rule(
            "self.min <= self.max",
            "min must be at most max",
            lambda scaling: bool(scaling["min"] <= scaling["max"]),
            field="min",
        ),
    ),
    Engine: (
        Rule(
            "!(has(self.replicas) && has(self.autoscaling))",
            "replicas and autoscaling exclude each other: with autoscaling leave replicas out",
            lambda engine: not {"replicas", "autoscaling"} <= engine.keys(),
            field="replicas",
        ),
    ),
    Gpu: (
        Rule(
            "self.sharing == 'Exclusive' || self.count == 1",
            "count above 1 needs sharing Exclusive: a model cannot be split over parts of GPUs",
            lambda gpu: gpu["sharing"] == "Exclusive" or gpu["count"] == 1,
            field="count",
        ),
        Rule(
            "!(self.sharing in ['MPS', 'TimeSlicing']) || has(self.share)",
            'sharing MPS and TimeSlicing need share, for example "0.5"',
            lambda gpu: gpu["sharing"] not in ("MPS", "TimeSlicing") or "share" in gpu,
            field="share",
        ),
        Rule(
            "!has(self.share) || self.sharing in ['MPS', 'TimeSlicing']",
            "share needs sharing MPS or TimeSlicing",
            lambda gpu: "share" not in gpu or gpu["sharing"] in ("MPS", "TimeSlicing"),
            field="share",
        ),
        Rule(
            _SHARE_CEL,
            'share must be 1/n of a GPU for n from 2 to 48, in quotes: "0.5", "0.333", "0.25"',
            _share_is_a_split,
            field="share",
            detail=_neighbours,
        ),
        Rule(
            "self.sharing != 'MIG' || has(self.migProfile)",
            "sharing MIG needs migProfile, for example 3g.40gb",
            lambda gpu: gpu["sharing"] != "MIG" or "migProfile" in gpu,
            field="migProfile",
        ),
        Rule(
            "!has(self.migProfile) || self.sharing == 'MIG'",
            "migProfile needs sharing MIG",
            lambda gpu: "migProfile" not in gpu or gpu["sharing"] == "MIG",
            field="migProfile",
        ),
        Rule(
            f"!has(self.migProfile) || self.migProfile.matches('{MIG_PATTERN}')",
            "migProfile must be as nvidia-smi lists it, for example 1g.10gb or 3g.40gb",
            lambda gpu: (
                "migProfile" not in gpu or re.fullmatch(MIG_PATTERN, gpu["migProfile"]) is not None
            ),
            field="migProfile",
        ),
    ),
    KVCache: (
        Rule(
            "self.lowWatermarkPercent < self.highWatermarkPercent",
            "lowWatermarkPercent must be below highWatermarkPercent",
            lambda cache: bool(cache["lowWatermarkPercent"] < cache["highWatermarkPercent"]),
            field="lowWatermarkPercent",
        ),
    ),
    TenantKVCache: (
        Rule(
            "self.reservePercent <= self.limitPercent",
            "reservePercent must be at most limitPercent",
            lambda cache: bool(cache["reservePercent"] <= cache["limitPercent"]),
            field="reservePercent",
        ),
    ),
    Spec: (
        Rule(
            "self.tenants.all(t, self.tenants.exists_one(u, u.name == t.name))",
            "tenants must have different names",
            _names_differ,
            field="tenants",
            detail=_twice,
        ),
        Rule(
            "self.tenants.size() == 0 || self.tenants.exists(t, type(t.weight) == int ? "
            "t.weight > 0 : quantity(t.weight).isGreaterThan(quantity('0')))",
            "at least one tenant must have a weight above 0",
            _some_weight,
            field="tenants",
        ),
        Rule(
            "self.tenants.map(t, t.kvCache.reservePercent).sum() <= 100",
            "the kvCache.reservePercent of all tenants must add up to at most 100",
            lambda spec: sum(t["kvCache"]["reservePercent"] for t in spec["tenants"]) <= 100,
            field="tenants",
            detail=lambda spec: (
                "they add up to "
                + str(sum(t["kvCache"]["reservePercent"] for t in spec["tenants"]))
            ),
        ),
        Rule(
            "self.unknownTenant != 'Refuse' || has(self.identity)",
            "unknownTenant Refuse needs identity: without it everybody is tenant `default`",
            lambda spec: spec["unknownTenant"] != "Refuse" or "identity" in spec,
            field="unknownTenant",
        ),
    ),
}


def broken(kind: type[Part], body: Json) -> Iterator[tuple[Rule, str]]:
    """The rules of `kind` that `body` breaks, each with its whole message."""
    for rule in RULES.get(kind, ()):
        try:
            if rule.holds(body):
                continue
            detail = f"; {rule.detail(body)}" if rule.detail else ""
        except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError):
            continue
        yield rule, rule.message + detail
