"""A small scenario, for whoever runs or measures one: two tenants, a few seconds."""

from tenantry_bench.simulator.scenario import Length, Scenario, Shape, Tenant

SHORT = Shape(Length(60, 0.5), Length(20, 0.5))
LONG = Shape(Length(400, 0.5), Length(60, 0.5))


def a_scenario(*tenants: Tenant, seconds: float = 6.0, drain: bool = True) -> Scenario:
    """A light tenant and a heavy one, unless others are given."""
    listed = tenants or (
        Tenant("light", (SHORT,), rate=2.0, priority=1),
        Tenant("heavy", (LONG,), rate=8.0),
    )
    return Scenario("small", "a small one", listed, seconds, (0.0, seconds), drain=drain)
