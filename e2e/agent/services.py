"""Services: addresses by nft, names by hosts files. What kube-proxy and a DNS server do elsewhere.

The table is replaced as a whole in one transaction. A Service without endpoints refuses at once.
Names come from one hosts file per pod, rewritten in place: it is mounted, so its inode must stay.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Object = dict[str, Any]
DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Route:
    """One port of a ClusterIP and the (address, port) pairs behind it."""

    address: str
    protocol: str
    port: int
    targets: tuple[tuple[str, int], ...]


def slices_by_service(slices: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """(namespace, service) -> its IPv4 EndpointSlices, in the order of their names."""
    found: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for item in sorted(slices, key=lambda each: str(each["metadata"]["name"])):
        meta = item["metadata"]
        owner = meta.get("labels", {}).get("kubernetes.io/service-name")
        if owner and item.get("addressType") == "IPv4":
            found[(meta["namespace"], owner)].append(item)
    return found


def ready_endpoints(item: Object) -> list[Object]:
    """Endpoints that may be sent to; an unset condition means ready."""
    return [
        endpoint
        for endpoint in item.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready") is not False
    ]


def routes(services: Iterable[Object], slices: Iterable[Object]) -> list[Route]:
    """What to translate, in the order of the Services' addresses and ports."""
    by_service = slices_by_service(slices)
    found = []
    for service in services:
        spec, meta = service["spec"], service["metadata"]
        address = spec.get("clusterIP")
        if not address or address == "None" or ":" in address:
            continue
        backing = by_service.get((meta["namespace"], meta["name"]), [])
        for port in spec.get("ports", []):
            protocol = port.get("protocol", "TCP").lower()
            found.append(Route(address, protocol, port["port"], _targets(port, backing)))
    return sorted(found, key=lambda route: (route.address, route.port, route.protocol))


def _targets(port: Object, slices: Sequence[Object]) -> tuple[tuple[str, int], ...]:
    found = set()
    for item in slices:
        for offered in item.get("ports") or []:
            if (offered.get("name") or "") != port.get("name", ""):
                continue
            for endpoint in ready_endpoints(item):
                found.add((str(endpoint["addresses"][0]), int(offered["port"])))
    return tuple(sorted(found))


def ruleset(wanted: Sequence[Route]) -> str:
    """The whole nft table as one transaction."""
    translate, refuse, pods = [], [], set()
    for route in wanted:
        match = f"ip daddr {route.address} {route.protocol} dport {route.port}"
        if not route.targets:
            how = "tcp reset" if route.protocol == "tcp" else "icmp port-unreachable"
            refuse.append(f"    {match} reject with {how}")
            continue
        pods |= {address for address, _ in route.targets}
        entries = ", ".join(
            f"{index} : {address} . {port}" for index, (address, port) in enumerate(route.targets)
        )
        choice = f"numgen random mod {len(route.targets)} map {{ {entries} }}"
        translate.append(f"    {match} dnat ip to {choice}")
    hairpin = [f"    ip saddr {pod} ip daddr {pod} masquerade" for pod in sorted(pods)]
    lines = ["table ip tenantry", "delete table ip tenantry", "table ip tenantry {"]
    lines += ["  chain translate {", *translate, "  }", "  chain refuse {", *refuse, "  }"]
    for hook in ("prerouting", "output"):
        head = f"type nat hook {hook} priority -100;"
        lines += [f"  chain nat_{hook} {{", f"    {head}", "    jump translate", "  }"]
    for hook in ("input", "forward", "output"):
        head = f"type filter hook {hook} priority 0;"
        lines += [f"  chain filter_{hook} {{", f"    {head}", "    jump refuse", "  }"]
    lines += ["  chain hairpin {", "    type nat hook postrouting priority 100;", *hairpin, "  }"]
    return "\n".join([*lines, "}", ""])


def names(services: Iterable[Object], slices: Iterable[Object]) -> list[tuple[str, str, str]]:
    """(address, namespace, name) for every Service; a headless one has a line per endpoint."""
    by_service = slices_by_service(slices)
    found = set()
    for service in services:
        meta, address = service["metadata"], service["spec"].get("clusterIP")
        name, namespace = meta["name"], meta["namespace"]
        if address and address != "None":
            found.add((address, namespace, name))
            continue
        for item in by_service.get((namespace, name), []):
            for endpoint in ready_endpoints(item):
                where = endpoint["addresses"][0]
                found.add((where, namespace, name))
                if endpoint.get("hostname"):
                    found.add((where, namespace, f"{endpoint['hostname']}.{name}"))
    return sorted(found, key=lambda entry: (entry[1], entry[2], entry[0]))


def hosts(
    known: Iterable[tuple[str, str, str]], own: Mapping[str, str], namespace: str | None
) -> str:
    """A hosts file. own: name -> address of the pod itself; namespace: whose short names count."""
    lines = ["127.0.0.1 localhost"] + [f"{address} {name}" for name, address in own.items()]
    for address, where, name in known:
        qualified = f"{name}.{where}"
        forms = [f"{qualified}.svc.{DOMAIN}", f"{qualified}.svc", qualified]
        if where == namespace:
            forms.append(name)
        lines.append(" ".join([address, *forms]))
    return "\n".join(lines) + "\n"


def write_in_place(path: Path, text: str) -> None:
    """Replace the content of a file and keep its inode."""
    data = text.encode()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
