"""Which tenants have series of their own, and the buckets that every histogram of an engine has."""

from typing import Final

from tenantry_api import names
from tenantry_engine.config import EngineConfig

MAX_TENANTS: Final = 1000
_STEPS_PER_DECADE: Final = 8


def buckets(low: int, high: int) -> tuple[float, ...]:
    """Upper bounds in seconds from 10**low to 10**high, eight a decade: each 1.33 times the last.

    A quantile read from them is off by at most a third, P99.9 like the median.
    """
    steps = range(low * _STEPS_PER_DECADE, high * _STEPS_PER_DECADE + 1)
    return tuple(float(f"{10 ** (step / _STEPS_PER_DECADE):.3g}") for step in steps)


class Labels:
    """The label `tenant` for each tenant: its name, or `other` past the first 1,000."""

    def __init__(self, config: EngineConfig) -> None:
        self._open = config.open_tenants
        self._own = set(config.known[:MAX_TENANTS])
        self._configured = set(self._own)

    def of(self, tenant: str) -> str:
        """The label of a tenant. Where any name is a tenant, new ones get theirs while they fit."""
        if tenant in self._own:
            return tenant
        if not self._open or len(self._own) >= MAX_TENANTS:
            return names.OTHER_TENANT
        self._own.add(tenant)
        return tenant

    def change(self, config: EngineConfig) -> set[str]:
        """Take a new configuration: the labels whose series are to go."""
        self._open = config.open_tenants
        configured = set(config.known[:MAX_TENANTS])
        gone = self._configured - configured
        self._own = (self._own - gone) | configured
        self._configured = configured
        return gone
