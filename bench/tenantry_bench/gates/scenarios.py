"""Scenarios that only gates need, beside the simulator's catalogue."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import catalogue, public
from tenantry_bench.simulator.scenario import Scenario, Tenant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


TIERS: Final = "tiers"


def _tiers() -> Scenario:
    """Three tiers of equal rate on a small GPU that gets a fifth more work than it can do."""
    tiers = (("premium", 3, 4.0), ("standard", 2, 2.0), ("batch", 1, 1.0))
    return Scenario(
        name=TIERS,
        text="three tiers with conversation and code, together 1.2 of what the GPU can do",
        tenants=tuple(
            Tenant(
                name,
                (catalogue.CONVERSATION, catalogue.CODE),
                rate=1.0,
                weight=weight,
                priority=priority,
            )
            for name, priority, weight in tiers
        ),
        duration=600.0,
        window=(30.0, 600.0),
        drain=True,
        utilisation=1.2,
    )


OWN: Final[Mapping[str, Scenario]] = MappingProxyType({TIERS: _tiers()})


def find(name: str, data: Path | None = None) -> Scenario:
    """Return a scenario, filled with public data where it takes any. Raises BadInputError."""
    if name not in OWN and name not in catalogue.SCENARIOS:
        raise BadInputError(f"there is no scenario {name}")
    found = OWN.get(name) or catalogue.SCENARIOS[name]
    return found if data is None else public.filled(found, data)
