"""Who is calling: the tenant of a request from its headers and the address it came from.

Pure. The address is that of the connection. `X-Forwarded-For` and its kin are never read: whoever
may name a tenant is said by network, and a client could write any address into a header.
"""

import ipaddress
from collections.abc import Iterable
from enum import StrEnum

from tenantry_api import names
from tenantry_api.choices import UnknownTenant
from tenantry_api.tenant import tenant_name
from tenantry_engine.config import EngineConfig, Network


class Outcome(StrEnum):
    """How a request was identified. All but `ok` make it a request of tenant `default`."""

    OK = "ok"
    UNKNOWN = "unknown"
    UNTRUSTED = "untrusted"
    MALFORMED = "malformed"
    ABSENT = "absent"


class Refusal(StrEnum):
    """Why the door refuses: the label, the field of the log and the `reason` of the body."""

    UNKNOWN_TENANT = "UnknownTenant"
    MALFORMED_TENANT = "MalformedTenant"


_REFUSALS = {
    Outcome.UNKNOWN: Refusal.UNKNOWN_TENANT,
    Outcome.MALFORMED: Refusal.MALFORMED_TENANT,
}


def identify(
    headers: Iterable[tuple[bytes, bytes]], peer: str | None, config: EngineConfig
) -> tuple[str, Outcome]:
    """The tenant and how it was found.

    `headers` as ASGI gives them (names in lower case), `peer` the address of the connection, None
    where there is none (a Unix socket). Only a header from a trusted peer names a tenant.
    """
    wanted = config.header.lower().encode()
    values = [value for name, value in headers if name == wanted]
    if not values:
        return names.DEFAULT_TENANT, Outcome.ABSENT
    if not trusted(peer, config.trusted_peers):
        return names.DEFAULT_TENANT, Outcome.UNTRUSTED
    name = _name(values)
    if name is None:
        return names.DEFAULT_TENANT, Outcome.MALFORMED
    if name in config.weights or name == names.DEFAULT_TENANT:
        return name, Outcome.OK
    if not config.open_tenants:
        return names.DEFAULT_TENANT, Outcome.UNKNOWN
    # Two headers that a proxy has joined are no name.
    if "," in name:
        return names.DEFAULT_TENANT, Outcome.MALFORMED
    return name, Outcome.OK


def refusal(outcome: Outcome, config: EngineConfig) -> Refusal | None:
    """Why a request with this outcome is refused, or None: it is served."""
    if config.unknown_tenant is not UnknownTenant.REFUSE:
        return None
    return _REFUSALS.get(outcome)


def trusted(peer: str | None, networks: Iterable[Network]) -> bool:
    """Whether the address lies in one of the networks. An IPv4 address in IPv6 clothes counts."""
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def _name(values: list[bytes]) -> str | None:
    if len(values) != 1:
        return None
    try:
        return tenant_name(values[0].decode("utf-8"))
    except ValueError:
        return None
