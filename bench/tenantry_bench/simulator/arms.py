"""What stands behind the name of an arm: the scheduler, and how it is configured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from tenantry_api import names
from tenantry_api.choices import Fairness, Ordering, UnknownTenant
from tenantry_bench.simulator import oracle
from tenantry_bench.simulator.contest import APART, PRIORITY, STOCK, TENANTRY, VTC
from tenantry_engine import offline
from tenantry_engine.conductor import Setup
from tenantry_engine.config import EngineConfig
from tenantry_engine.metrics import EngineMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry_bench.simulator.drive import Clock
    from tenantry_bench.simulator.options import Options
    from tenantry_bench.simulator.profiles import Costs
    from tenantry_bench.simulator.record import Log
    from tenantry_bench.simulator.scenario import Scenario

NO_BUDGET: Final = 3600.0
"""A step budget in seconds that bounds nothing: what other schedulers have."""


@dataclass(frozen=True)
class Cell:
    """One run: a scenario, an arm, and the engine that they ask for."""

    scenario: Scenario
    arm: str
    options: Options

    @property
    def size(self) -> offline.Size:
        """The engine's size."""
        options = self.options
        return offline.Size(
            seats=options.seats,
            tokens=options.tokens,
            blocks=options.blocks(self.scenario.kv_tokens),
            block=options.block,
            caching=options.engine.caching,
            policy="priority" if self.arm == PRIORITY else "fcfs",
        )

    @property
    def config(self) -> EngineConfig | None:
        """What the plugin is configured with; None for vLLM's own scheduler."""
        base, _, ordering = self.arm.partition(":")
        if base in (STOCK, PRIORITY, *APART):
            return None
        if base == TENANTRY:
            config = self.options.policy or weighted(self.scenario)
            return replace(config, ordering=Ordering(ordering)) if ordering else config
        bare = replace(weighted(self.scenario), step_budget=NO_BUDGET)
        if base == VTC:
            return replace(bare, fairness=Fairness.TOKENS, ordering=Ordering.FIFO)
        return replace(bare, fairness=Fairness.NONE, ordering=Ordering(base))

    def scheduler(self, clock: Clock, log: Log, costs: Costs) -> Any:
        """The scheduler of this arm."""
        config, use_async = self.config, self.options.engine.use_async
        if config is None:
            return offline.stock(self.size, use_async=use_async)
        told = oracle.injected(self.options.lengths, self.options.model, costs, lambda: log.records)
        metrics = EngineMetrics(config, CollectorRegistry())
        return offline.ours(
            self.size, Setup(config, metrics, clock=clock, **told), use_async=use_async
        )

    @property
    def admit(self) -> Callable[[str], str | None]:
        """As the door does: who is not in the policy is `default`, or is refused."""
        config = self.config
        if config is None or not config.tenants or config.open_tenants:
            return str
        return lambda tenant: _admitted(tenant, config)


def _admitted(tenant: str, config: EngineConfig) -> str | None:
    if tenant in config.known:
        return tenant
    return names.DEFAULT_TENANT if config.unknown_tenant == UnknownTenant.DEFAULT else None


def weighted(scenario: Scenario) -> EngineConfig:
    """The policy of a scenario for which none was given: its tenants with their weights."""
    weights = {tenant.name: tenant.weight for tenant in scenario.tenants}
    return EngineConfig(
        policy="simulated", weights=weights, tenants=scenario.names, open_tenants=True
    )
