"""Kubernetes objects as the API sends them -> the values that decisions are made of.

Manifests stay dicts and end here. What is missing gets the default of the Kubernetes API; a value
that makes no sense gets the default too, with a warning, for one bad object must not stop the
scheduling of all others.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tenantry_api import names
from tenantry_core import slices
from tenantry_core.placement import Node, Requirement, Taint, Toleration, Wanted

Manifest = Mapping[str, Any]

log = logging.getLogger(__name__)

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)([eE][+-]?[0-9]{1,2}|[a-zA-Z]*)")
_SUFFIXES: Mapping[str, Fraction] = {
    **{
        name: Fraction(1000) ** power
        for power, name in enumerate(["", "k", "M", "G", "T", "P", "E"])
    },
    **{
        name: Fraction(1024) ** power
        for power, name in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi"])
    },
    "Ei": Fraction(1024) ** 6,
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}


@dataclass(frozen=True)
class Pod:
    """A pod as the books know it. `node` is "" until it is bound; `message` is that of its
    PodScheduled condition while the status there is False."""

    uid: str
    namespace: str
    name: str
    wants: Wanted
    policy: str = ""
    scheduler: str = ""
    node: str = ""
    nominated: str = ""
    created: str = ""
    priority: int = 0
    gated: bool = False
    ending: bool = False
    reason: str = ""
    message: str = ""
    version: str = ""


def quantity(value: object) -> Fraction:
    """A Kubernetes quantity (`500m`, `1.5Gi`, `2e3`, a number); ValueError for anything else."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is no Kubernetes quantity")
    number, suffix = Fraction(match[1].rstrip(".")), match[2]
    if suffix[:1] in ("e", "E") and suffix != "E" and suffix != "Ei":
        return number * Fraction(10) ** int(suffix[1:])
    if suffix not in _SUFFIXES:
        raise ValueError(f"{value!r} is no Kubernetes quantity: unknown suffix {suffix!r}")
    return number * _SUFFIXES[suffix]


def node(body: Manifest) -> Node:
    spec, status = _part(body, "spec"), _part(body, "status")
    labels: Mapping[str, str] = _part(_part(body, "metadata"), "labels")
    capacity, allocatable = (
        _amounts(_part(status, "capacity")),
        _amounts(_part(status, "allocatable")),
    )
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    return Node(
        name=body["metadata"]["name"],
        allocatable=allocatable,
        labels=labels,
        taints=tuple(
            Taint(taint.get("key", ""), taint.get("value") or "", taint.get("effect", ""))
            for taint in spec.get("taints") or ()
        ),
        usable=ready and not spec.get("unschedulable"),
        slices={
            name: slices.of_node(name, labels, capacity.get(name, count))
            for name, count in allocatable.items()
            if slices.is_gpu(name)
        },
    )


def pod(body: Manifest) -> Pod:
    metadata, spec, status = (_part(body, key) for key in ("metadata", "spec", "status"))
    refused = _refusal(status)
    return Pod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        wants=_wants(spec),
        policy=_part(metadata, "labels").get(names.LABEL_POLICY, ""),
        scheduler=spec.get("schedulerName", ""),
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        created=metadata.get("creationTimestamp") or "",
        priority=spec.get("priority") or 0,
        gated=bool(spec.get("schedulingGates")),
        ending=bool(metadata.get("deletionTimestamp")),
        reason=refused.get("reason") or "",
        message=refused.get("message") or "",
        version=metadata.get("resourceVersion") or "",
    )


def is_over(body: Manifest) -> bool:
    """Whether a pod has ended for good and holds nothing any more."""
    return _part(body, "status").get("phase") in ("Succeeded", "Failed")


def policy_weight(body: Manifest) -> Fraction:
    return _weight(_part(body, "spec").get("weight", 1), "spec.weight", body)


def namespace_weight(body: Manifest) -> Fraction:
    label = names.LABEL_NAMESPACE_WEIGHT
    labels = _part(_part(body, "metadata"), "labels")
    return _weight(labels.get(label, 1), f"metadata.labels[{label}]", body)


def _weight(value: object, path: str, body: Manifest) -> Fraction:
    try:
        weight = quantity(value)
    except ValueError:
        weight = Fraction(-1)
    if weight >= 0:
        return weight
    metadata = body["metadata"]
    log.warning(
        "%s of %s/%s is %r; a weight is a number that is not negative, so 1 is in force",
        path, metadata.get("namespace", ""), metadata["name"], value,
    )  # fmt: skip
    return Fraction(1)


def _part(body: Manifest, key: str) -> Manifest:
    part: Manifest = body.get(key) or {}
    return part


def _amounts(quantities: Mapping[str, object]) -> dict[str, int]:
    """Whole numbers: thousandths of a core for `cpu`, bytes or pieces for everything else."""
    scale = {"cpu": 1000}
    return {name: math.ceil(quantity(q) * scale.get(name, 1)) for name, q in quantities.items()}


def _refusal(status: Manifest) -> Manifest:
    return next(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        ),
        {},
    )


def _wants(spec: Manifest) -> Wanted:
    affinity = _part(_part(spec, "affinity"), "nodeAffinity")
    required = _part(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    return Wanted(
        requests=_requests(spec),
        selector=_part(spec, "nodeSelector"),
        terms=tuple(_term(term) for term in required.get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            Toleration(
                key=item.get("key") or "",
                operator=item.get("operator") or "Equal",
                value=item.get("value") or "",
                effect=item.get("effect") or "",
            )
            for item in spec.get("tolerations") or ()
        ),
    )


def _term(term: Manifest) -> tuple[Requirement, ...]:
    found = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    if not found:  # an empty term matches no object
        return (Requirement("", "None"),)
    return tuple(
        Requirement(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in found
    )


def _requests(spec: Manifest) -> dict[str, int]:
    """What kube-scheduler counts for a pod: the sum of its containers, or an init container that
    asks for more, with sidecars (init containers that go on running) in both, and the overhead."""
    running = _sum(_container(item) for item in spec.get("containers") or ())
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for item in spec.get("initContainers") or ():
        if item.get("restartPolicy") == "Always":
            sidecars = _sum([sidecars, _container(item)])
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _sum([sidecars, _container(item)]))
    whole = _larger(_sum([running, sidecars]), peak)
    return _sum([whole, _amounts(_part(spec, "overhead")), {"pods": 1}])


def _container(item: Manifest) -> dict[str, int]:
    resources = _part(item, "resources")
    return _amounts({**_part(resources, "limits"), **_part(resources, "requests")})


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _larger(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
