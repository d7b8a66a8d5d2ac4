"""All groups of gates, by name, in the order of the table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tenantry_bench.gates import clients, costs, fidelity, neighbour, order, tiers, weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenantry_bench.gates.group import Group

GROUPS: Final[Mapping[str, Group]] = MappingProxyType(
    {
        module.GROUP.name: module.GROUP
        for module in (neighbour, weights, clients, order, tiers, costs, fidelity)
    }
)
