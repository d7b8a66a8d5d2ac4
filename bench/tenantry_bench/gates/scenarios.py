"""Scenarios that only gates need, beside the simulator's catalogue."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import catalogue, public
from tenantry_bench.simulator.scenario import Scenario, Shape, Tenant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tenantry_bench.simulator.profiles import Profile

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


def closed(concurrency: int, pairs: tuple[tuple[int, int], ...]) -> Scenario:
    """Return a closed loop of one tenant with these prompts and outputs, until all have ended."""
    return Scenario(
        name="closed",
        text=f"a closed loop with {concurrency} at once",
        tenants=(Tenant("all", (Shape(pairs=pairs),), in_flight=concurrency),),
        duration=100_000.0,
        window=(0.0, 100_000.0),
        drain=True,
    )


def priced(profile: Profile, prices: tuple[float, float, float, float]) -> Profile:
    """Return the profile with other prices: milliseconds of the one-token step, microseconds a
    sequence, nanoseconds a token of context, picoseconds a token squared of prompt attention.
    """
    base, sequence, context, attention = prices
    first = profile.times.dense_ms[0][1]
    times = profile.times.model_copy(
        update={
            "dense_ms": tuple((n, ms - first + base) for n, ms in profile.times.dense_ms),
            "sequence_us": sequence,
            "context_ns": context,
            "prompt_ps": attention,
        }
    )
    return profile.model_copy(update={"times": times})
