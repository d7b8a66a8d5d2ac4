"""A container's environment and command line, from its manifest. Values in, values out.

Order, later wins: image, addresses of Services, devices, `envFrom`, `env`. `$(VAR)` refers to
what was defined before; `$$(VAR)` is the text `$(VAR)`; an unknown name stays as it is written.
"""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from e2e.agent.resources import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
Key = tuple[str, str]  # kind (ConfigMap or Secret) and name
_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class MissingValueError(ValueError):
    """The manifest asks for a value that is not there (kubelet: CreateContainerConfigError)."""


@dataclass(frozen=True)
class Sources:
    """What a manifest may refer to. objects: ConfigMaps and Secrets that exist."""

    pod: Object
    addresses: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[Key, Object] = field(default_factory=dict)


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(VAR)`."""

    def value(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return known.get(match.group(1), match.group(0))

    return _REFERENCE.sub(value, text)


def references(container: Object) -> set[Key]:
    """The ConfigMaps and Secrets that a container's environment needs."""
    found = set()
    for entry in container.get("envFrom", []):
        for field_name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if field_name in entry:
                found.add((kind, str(entry[field_name]["name"])))
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {})
        for field_name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if field_name in source:
                found.add((kind, str(source[field_name]["name"])))
    return found


def texts(kind: str, item: Object) -> dict[str, str]:
    """The entries of a ConfigMap or Secret as text."""
    data = item.get("data") or {}
    if kind == "ConfigMap":
        return {str(name): str(value) for name, value in data.items()}
    return {
        name: base64.b64decode(value).decode("utf-8", "replace") for name, value in data.items()
    }


def build(container: Object, sources: Sources, base: Mapping[str, str]) -> dict[str, str]:
    """The environment; `base` holds what is defined before the manifest speaks.

    Raises MissingValueError naming what is missing.
    """
    found = dict(base)
    for entry in container.get("envFrom", []):
        found |= _from(entry, sources)
    for entry in container.get("env", []):
        if "valueFrom" in entry:
            value = _value_from(entry["valueFrom"], container, sources)
            if value is None:
                continue
        else:
            value = expand(str(entry.get("value") or ""), found)
        found[entry["name"]] = value
    return found


def _from(entry: Object, sources: Sources) -> dict[str, str]:
    kind, reference = (
        ("ConfigMap", entry["configMapRef"])
        if "configMapRef" in entry
        else ("Secret", entry["secretRef"])
    )
    item = _object(kind, reference, sources)
    prefix = entry.get("prefix", "")
    return {prefix + name: value for name, value in (texts(kind, item) if item else {}).items()}


def _object(kind: str, reference: Object, sources: Sources) -> Object | None:
    item = sources.objects.get((kind, reference["name"]))
    if item is None and not reference.get("optional"):
        raise MissingValueError(f'{kind.lower()} "{reference["name"]}" not found')
    return item


def _value_from(source: Object, container: Object, sources: Sources) -> str | None:
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], sources)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], container)
    kind, reference = (
        ("ConfigMap", source["configMapKeyRef"])
        if "configMapKeyRef" in source
        else ("Secret", source["secretKeyRef"])
    )
    item = _object(kind, reference, sources)
    values = texts(kind, item) if item else {}
    if reference["key"] in values:
        return values[reference["key"]]
    if reference.get("optional"):
        return None
    raise MissingValueError(f"couldn't find key {reference['key']} in {kind} {reference['name']}")


def field_value(path: str, sources: Sources) -> str:
    """A field of the pod by its downward-API path."""
    keyed = _KEYED.fullmatch(path)
    meta, spec = sources.pod["metadata"], sources.pod["spec"]
    if keyed:
        return str(meta.get(keyed.group(1), {}).get(keyed.group(2), ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        entries = sorted(meta.get(path.split(".")[1], {}).items())
        return "\n".join(f'{name}="{value}"' for name, value in entries)
    simple: dict[str, object] = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
    }
    if path in simple:
        return str(simple[path])
    if path in sources.addresses:
        return sources.addresses[path]
    raise MissingValueError(f"field {path} is not offered here")


def resource_value(reference: Object, container: Object) -> str:
    """A request or limit of a container, divided and rounded up."""
    kind, _, name = str(reference["resource"]).partition(".")
    value = container.get("resources", {}).get(kind, {}).get(name, "0")
    divisor = quantity(reference.get("divisor") or "1") or quantity("1")
    return str(math.ceil(quantity(value) / divisor))


def service_links(services: Iterable[Object], namespace: str, *, all_of_it: bool) -> dict[str, str]:
    """The variables that point to Services, as Docker links once did.

    The API server's is there always, those of the pod's namespace unless `enableServiceLinks`
    is off. A Service called `vllm` really makes a `VLLM_PORT`, here as on any cluster.
    """
    found: dict[str, str] = {}
    for service in sorted(services, key=lambda each: str(each["metadata"]["name"])):
        meta, address = service["metadata"], service["spec"].get("clusterIP")
        if not address or address == "None":
            continue
        is_api = (meta["namespace"], meta["name"]) == ("default", "kubernetes")
        if is_api or (all_of_it and meta["namespace"] == namespace):
            found |= _links(meta["name"], address, service["spec"].get("ports", []))
    return found


def _links(name: str, address: str, ports: list[Object]) -> dict[str, str]:
    if not ports:
        return {}
    stem = name.upper().replace("-", "_")
    first = ports[0]
    found = {f"{stem}_SERVICE_HOST": address, f"{stem}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            label = port["name"].upper().replace("-", "_")
            found[f"{stem}_SERVICE_PORT_{label}"] = str(port["port"])
        protocol = port.get("protocol", "TCP")
        url = f"{protocol.lower()}://{address}:{port['port']}"
        if port is first:
            found[f"{stem}_PORT"] = url
        link = f"{stem}_PORT_{port['port']}_{protocol}"
        found |= {link: url, f"{link}_PROTO": protocol.lower(), f"{link}_PORT": str(port["port"])}
        found[f"{link}_ADDR"] = address
    return found
