"""The scenarios by name, and the families that one name stands for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator.scenario import Length, Scenario, Shape, Tenant, shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _neighbour(name: str, rate: float, text: str) -> Scenario:
    return Scenario(
        name=name,
        text=text,
        tenants=(
            Tenant("quiet", (shape(512, 128),), rate=1.0, priority=1),
            Tenant("flooder", (shape(2048, 256),), rate=rate),
        ),
        duration=240.0,
        window=(10.0, 180.0),
    )


def _hog() -> Scenario:
    long = Shape(Length(low=100, high=400), Length(low=2500, high=4000))
    short = Shape(Length(low=200, high=800), Length(low=60, high=200))
    return Scenario(
        "N2",
        "120 requests with long answers that fill the KV cache (60k tokens), a newcomer at 30 s",
        (
            Tenant("hog", (long,), burst=120),
            Tenant("newcomer", (short,), rate=6.0, start=30.0, priority=1),
        ),
        duration=150.0,
        window=(0.0, 150.0),
        kv_tokens=60_000,
        drain=True,
    )


THREE: Final = (shape(3000, 100), shape(500, 400), shape(1000, 200))
SAME: Final = shape(1000, 200)


def _weights(name: str, text: str, kinds: Sequence[Shape], weights: Sequence[float]) -> Scenario:
    tenants = tuple(
        Tenant(f"w{weight:g}", (kind,), in_flight=256, weight=weight, priority=int(weight))
        for kind, weight in zip(kinds, weights, strict=True)
    )
    return Scenario(
        name, text, tenants, duration=150.0, window=(10.0, 150.0), arms=("stock", "VTC", "tenantry")
    )


def _crowd() -> Scenario:
    tenants = tuple(
        Tenant(f"t{number:02d}", (THREE[number % 3],), in_flight=16) for number in range(64)
    )
    return Scenario(
        "N6-64",
        "64 tenants of equal weight and three shapes, all with 16 requests in flight",
        tenants,
        duration=150.0,
        window=(10.0, 150.0),
        arms=("stock", "VTC", "tenantry"),
    )


def _fan(in_flight: int, connections: int) -> Scenario:
    name = f"N8-{in_flight}x{connections}"
    agent = (shape(512, 128),)
    a = Tenant("a", agent, in_flight=in_flight, connections=connections)
    b = Tenant("b", agent, in_flight=256)
    return Scenario(
        name,
        f"a with {in_flight} in flight over {connections} connections, beside a backlogged b",
        (a, b),
        duration=120.0,
        window=(10.0, 120.0),
        arms=("stock", "tenantry"),
        lots="N8",
    )


# Log-normal look-alikes of the two Azure traces of 2023 (conversation, code): mean and coefficient
# of variation of prompt and output, and the longest of each, in tokens.
CONVERSATION: Final = Shape(Length(1155, 0.96, most=14_050), Length(211, 0.77, most=1000))
CODE: Final = Shape(Length(2048, 0.96, most=7437), Length(28, 2.15, most=1899))
REASONING: Final = (
    Shape(Length(low=2000, high=6000), Length(low=50, high=300), 0.3),
    Shape(Length(low=50, high=600), Length(1049, 1.12, most=6000), 0.7),
)

LENGTHS: Final = "Azure-like lengths (log-normal look-alikes); --data DIR takes the real ones"
CLIENTS: Final = "ServeGen-like clients (made up); --data DIR takes the real ones"


def _order(name: str, shapes: tuple[Shape, ...], rate: float, kv: int, text: str) -> Scenario:
    return Scenario(
        name,
        text,
        (Tenant("all", shapes, rate=rate),),
        duration=200.0,
        window=(0.0, 200.0),
        kv_tokens=kv,
        drain=True,
        arms=("stock", "SJF", "SVF", "tenantry"),
        synthetic=LENGTHS if name == "N4-azure" else "",
    )


def _many(utilisation: float) -> Scenario:
    """Clients whose rates fall as 1 / rank^1.5 and whose lengths and burstiness differ."""
    kinds = ((190, 50), (900, 250), (2500, 120), (400, 500))
    tenants = tuple(
        Tenant(
            f"c{rank:02d}",
            (shape(*kinds[rank % len(kinds)]),),
            rate=(rank + 1) ** -1.5,
            cv=(1.0, 2.0, 4.0)[rank % 3],
        )
        for rank in range(16)
    )
    return Scenario(
        f"N7-{utilisation:g}",
        f"16 clients of very different rates, together {utilisation:g} of what the GPU can do",
        tenants,
        duration=600.0,
        window=(30.0, 540.0),
        arms=("dedicated", "stock", "tenantry"),
        utilisation=utilisation,
        synthetic=CLIENTS,
    )


def _table() -> Mapping[str, Scenario]:
    light, flood = "a quiet tenant (1 request a second, 512/128)", "beside a flood of 2048/256 at"
    found = (
        _neighbour("N1", 12.0, f"{light} {flood} 12 a second"),
        _neighbour("N1p", 6.0, f"{light} {flood} 6 a second"),
        _neighbour("N1x2", 24.0, f"{light} {flood} 24 a second"),
        _hog(),
        _order(
            "N4-azure",
            (CONVERSATION, CODE),
            7.0,
            60_000,
            "order inside one tenant: conversation and code, 7 a second, 60k tokens of KV",
        ),
        _order(
            "N4-reasoning",
            REASONING,
            4.0,
            40_000,
            "order inside one tenant: long answers and long prompts, 4 a second, 40k tokens of KV",
        ),
        _weights("N6-same", "weights 1:2:4, equal shapes, all backlogged", (SAME,) * 3, (1, 2, 4)),
        _weights("N6-mixed", "weights 1:2:4, three shapes, all backlogged", THREE, (1, 2, 4)),
        _weights(
            "N6-4to1",
            "weights 4:1, two shapes, both backlogged",
            (shape(500, 300), shape(2048, 256)),
            (4, 1),
        ),
        _crowd(),
        *(_many(utilisation) for utilisation in (0.8, 1.1, 1.5)),
        *(_fan(64, connections) for connections in (1, 4, 16)),
        *(_fan(in_flight, 1) for in_flight in (128, 256)),
    )
    return MappingProxyType({scenario.name: scenario for scenario in found})


SCENARIOS: Final = _table()
FAMILIES: Final = ("N4", "N6", "N7", "N8")


def find(name: str) -> list[Scenario]:
    """Return the scenario of that name, or all of a family. Raises BadInputError."""
    if name in SCENARIOS:
        return [SCENARIOS[name]]
    family = [each for each in SCENARIOS.values() if each.name.startswith(f"{name}-")]
    if name not in FAMILIES or not family:
        known = ", ".join((*SCENARIOS, *FAMILIES))
        raise BadInputError(f"there is no scenario {name}; there are {known}")
    return family
