"""The figures of the door, on vLLM's own `/metrics`.

Plain prometheus_client objects of the default registry: with one API server vLLM shows that
registry, with several it adds up the files that prometheus_client then writes by itself.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from tenantry_api import names
from tenantry_engine.config import EngineConfig
from tenantry_engine.identity import Outcome, Refusal
from tenantry_engine.labels import Labels, buckets
from tenantry_engine.metrics import own_version

_TENANT: Final = ("policy", "tenant")
# From a token of a small model to the longest time-out that people set.
_WHOLE: Final = buckets(-3, 3)
_BETWEEN: Final = buckets(-3, 2)


class End(StrEnum):
    """How a request ended. Each one ends in exactly one way."""

    OK = "ok"
    ABORTED = "aborted"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Series:
    """The series of one tenant, looked up once."""

    ends: dict[End, Counter]
    ttft: Histogram
    itl: Histogram
    e2e: Histogram
    queue: Histogram


class DoorMetrics:
    """What the API server's process counts, per tenant."""

    def __init__(self, config: EngineConfig, registry: CollectorRegistry = REGISTRY) -> None:
        self._policy = config.policy
        self._labels = Labels(config)
        self._series: dict[str, Series] = {}
        self._requests = Counter(
            "tenantry_requests", "Requests by outcome", (*_TENANT, "outcome"), registry=registry
        )
        self._refused = Counter(
            "tenantry_refused",
            "Requests refused, by reason",
            (*_TENANT, "reason"),
            registry=registry,
        )
        self._identity = Counter(
            "tenantry_identity",
            "Requests by how they were identified",
            ("policy", "outcome"),
            registry=registry,
        )
        self._ttft = _histogram("ttft", "To the first token of a stream", _WHOLE, registry)
        self._itl = _histogram("itl", "Between two pieces of a stream", _BETWEEN, registry)
        self._e2e = _histogram("e2e", "Whole requests that ended well", _WHOLE, registry)
        self._queue = _histogram("queue", "From arrival in the engine to a seat", _WHOLE, registry)
        build = Gauge(
            "tenantry_build_info",
            "What runs here",
            ("component", "version"),
            registry=registry,
            multiprocess_mode="livemax",
        )
        build.labels("door", own_version()).set(1)
        for outcome in Outcome:
            self._identity.labels(self._policy, outcome)
        self._start(config)

    def of(self, tenant: str) -> Series:
        """The series of a tenant."""
        label = self._labels.of(tenant)
        found = self._series.get(label)
        return found if found is not None else self._make(label)

    def identified(self, outcome: Outcome) -> None:
        """A request arrived and was identified in this way."""
        self._identity.labels(self._policy, outcome).inc()

    def refused(self, reason: Refusal) -> None:
        """A request was refused. It belongs to no tenant that we know: the label is `other`."""
        self.of(names.OTHER_TENANT).ends[End.REFUSED].inc()
        self._refused.labels(self._policy, names.OTHER_TENANT, reason).inc()

    def change(self, config: EngineConfig) -> None:
        """Another policy is in force: new tenants begin at 0, the series of removed ones go."""
        for label in self._labels.change(config):
            self._forget(label)
        self._start(config)

    def _start(self, config: EngineConfig) -> None:
        for tenant in config.known:
            self.of(tenant)
        for reason in Refusal:
            self._refused.labels(self._policy, names.OTHER_TENANT, reason)

    def _make(self, label: str) -> Series:
        policy = self._policy
        made = Series(
            ends={end: self._requests.labels(policy, label, end) for end in End},
            ttft=self._ttft.labels(policy, label),
            itl=self._itl.labels(policy, label),
            e2e=self._e2e.labels(policy, label),
            queue=self._queue.labels(policy, label),
        )
        self._series[label] = made
        return made

    def _forget(self, label: str) -> None:
        # prometheus_client cannot take a series out of the files of several processes.
        if self._series.pop(label, None) is None or "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            return
        for end in End:
            self._requests.remove(self._policy, label, end)
        for family in (self._ttft, self._itl, self._e2e, self._queue):
            family.remove(self._policy, label)


def _histogram(
    name: str, text: str, bounds: tuple[float, ...], registry: CollectorRegistry
) -> Histogram:
    return Histogram(
        f"tenantry_request_{name}_seconds", text, _TENANT, buckets=bounds, registry=registry
    )
