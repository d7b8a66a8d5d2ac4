"""The figures of the engine process, on a port of its own (8001).

The scheduler calls plain methods between two steps: they add to dictionaries and take no lock. The
text is made when somebody asks for it. They are not prometheus_client's own counters because those
would show on vLLM's port as well as soon as vLLM runs several API servers.
"""

import bisect
import contextlib
import errno
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tenantry_api import names
from tenantry_engine.config import ConfigError, EngineConfig
from tenantry_engine.labels import Labels, buckets

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

TOKEN_KINDS: Final = ("prompt", "cached", "output")
SHARE_KINDS: Final = ("declared", "entitled", "attained")
# Why a running request goes back: it has no block to grow into, its seat goes to a tenant below
# its share, or the caches are reset.
CAUSES: Final = ("no_blocks", "seat", "reset")
REACTIVE: Final = "reactive"
STEP_BUCKETS: Final = buckets(-4, 1)

COUNTERS: Final = {
    "tenantry_tokens": ("Tokens done, by kind", ("kind",)),
    "tenantry_gpu_seconds": ("GPU time attributed to a tenant", ()),
    "tenantry_preemptions": ("Running requests that went back", ("cause", "mode")),
    "tenantry_inversions": ("Times an under-share tenant waited beyond the seat bound", ()),
    "tenantry_recomputed_tokens": ("Tokens done again after a preemption", ()),
    "tenantry_prefix_query_tokens": ("Prompt tokens looked up in the prefix cache", ()),
    "tenantry_prefix_hit_tokens": ("Prompt tokens found in the prefix cache", ()),
}
GAUGES: Final = {
    "tenantry_running_requests": ("Requests that hold a seat", ()),
    "tenantry_waiting_requests": ("Requests that wait for a seat", ()),
    "tenantry_share_ratio": ("Share of GPU time: declared, entitled, attained", ("kind",)),
}
# The label values that exist at 0 before anything has happened.
FIRST: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "tenantry_tokens": tuple((kind,) for kind in TOKEN_KINDS),
    "tenantry_share_ratio": tuple((kind,) for kind in SHARE_KINDS),
    "tenantry_preemptions": tuple((cause, REACTIVE) for cause in CAUSES),
}

Key = tuple[str, ...]


class EngineMetrics(Collector):
    """What the engine process shows. Methods take the tenant's name; labels are made here."""

    def __init__(self, config: EngineConfig, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._config = config
        self._labels = Labels(config)
        self._values: dict[str, defaultdict[Key, float]] = {
            name: defaultdict(float) for name in (*COUNTERS, *GAUGES)
        }
        self._steps = Histogram()
        self._predicted = Histogram()
        self._jain: float | None = None
        self._active = (False, "Starting")
        self._started: set[str] = set()
        self._server: WSGIServer | None = None
        self._start(config.known)
        registry.register(self)

    def step(self, seconds: float, predicted: float | None = None) -> None:
        """One engine step took `seconds`; `predicted` is what was expected of it."""
        self._steps.observe(seconds)
        if predicted is not None:
            self._predicted.observe(predicted)

    def tokens(self, tenant: str, kind: str, n: int) -> None:
        """`kind` is one of TOKEN_KINDS."""
        self._add("tenantry_tokens", n, tenant, kind)

    def gpu_seconds(self, tenant: str, seconds: float) -> None:
        """A tenant's part of a step."""
        self._add("tenantry_gpu_seconds", seconds, tenant)

    def requests(self, tenant: str, running: int, waiting: int) -> None:
        """How many requests a tenant has at the moment."""
        self._set("tenantry_running_requests", running, tenant)
        self._set("tenantry_waiting_requests", waiting, tenant)

    def preempted(self, tenant: str, cause: str, mode: str = REACTIVE) -> None:
        """A running request went back to the queue; `cause` is one of CAUSES."""
        self._add("tenantry_preemptions", 1, tenant, cause, mode)

    def inversion(self, tenant: str) -> None:
        """A tenant below its share waited beyond the seat bound."""
        self._add("tenantry_inversions", 1, tenant)

    def recomputed(self, tenant: str, n: int) -> None:
        """Tokens that had been done before a preemption and are done again."""
        self._add("tenantry_recomputed_tokens", n, tenant)

    def prefix(self, tenant: str, queried: int, hit: int) -> None:
        """Prompt tokens that were looked up in the prefix cache, and found there."""
        self._add("tenantry_prefix_query_tokens", queried, tenant)
        self._add("tenantry_prefix_hit_tokens", hit, tenant)

    def shares(self, tenant: str, declared: float, entitled: float, attained: float) -> None:
        """Fractions of the engine's GPU time, 0 to 1; `attained` over the last 60 s."""
        for kind, value in zip(SHARE_KINDS, (declared, entitled, attained), strict=True):
            self._set("tenantry_share_ratio", value, tenant, kind)

    def jain(self, index: float | None) -> None:
        """Jain's index of attained over entitled, 0 to 1; None while nobody is active."""
        self._jain = index

    def active(self, ok: bool, reason: str) -> None:
        """Whether our scheduler decides, and why or why not."""
        self._active = (ok, reason)

    def policy(self, config: EngineConfig) -> None:
        """Another policy is in force: new tenants begin at 0, the series of removed ones go."""
        gone = self._labels.change(config)
        self._config = config
        for values in self._values.values():
            for key in [key for key in list(values) if key[0] in gone]:
                del values[key]
        self._started -= gone
        self._start(config.known)

    def serve(self, port: int, address: str = "0.0.0.0") -> int:  # noqa: S104 - for scrapers
        """Answer `/metrics` on a thread of its own; 0: not at all. Raises ConfigError."""
        if not port:
            return 0
        try:
            self._server, _ = start_http_server(port, addr=address, registry=self._registry)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"failed: {error.strerror}"
            raise ConfigError(
                f"the port of the engine's metrics, {address}:{port}, {why}: "
                f"set {names.ENV_METRICS_PORT} to a free one, or to 0 for none"
            ) from error
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        """The families, in the order of the reference."""
        for name, (text, labels) in COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=("policy", "tenant", *labels))
            yield self._filled(counter, self._values[name])
        for name, (text, labels) in GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=("policy", "tenant", *labels))
            yield self._filled(gauge, self._values[name])
        yield self._weights()
        yield self._histogram("tenantry_step_seconds", "Duration of engine steps", self._steps)
        yield self._histogram(
            "tenantry_step_predicted_seconds", "What steps were predicted to take", self._predicted
        )
        yield from self._about()

    def _weights(self) -> Metric:
        weights = GaugeMetricFamily(
            "tenantry_tenant_weight", "The weight in force", labels=("policy", "tenant")
        )
        for tenant in sorted(self._started - {names.OTHER_TENANT}):
            weights.add_metric((self._config.policy, tenant), self._config.weight_of(tenant))
        return weights

    def _about(self) -> Iterator[Metric]:
        config = self._config
        jain = GaugeMetricFamily(
            "tenantry_fairness_jain_index",
            "Jain's index of attained over entitled, tenants active in the last 60 s",
            labels=("policy",),
        )
        if self._jain is not None:
            jain.add_metric((config.policy,), self._jain)
        yield jain
        ok, reason = self._active
        active = GaugeMetricFamily(
            "tenantry_engine_active", "1: our scheduler decides", labels=("policy", "reason")
        )
        active.add_metric((config.policy, reason), float(ok))
        yield active
        info = {
            "policy": config.policy,
            "hash": config.hash,
            "mode": config.mode,
            "fairness": config.fairness,
            "ordering": config.ordering,
            "eviction": config.eviction,
        }
        yield _constant("tenantry_policy_info", "The policy in force", info)
        build = {"component": "engine", "version": own_version()}
        yield _constant("tenantry_build_info", "What runs here", build)

    def _add(self, name: str, value: float, tenant: str, *labels: str) -> None:
        self._values[name][self._label(tenant), *labels] += value

    def _set(self, name: str, value: float, tenant: str, *labels: str) -> None:
        self._values[name][self._label(tenant), *labels] = value

    def _label(self, tenant: str) -> str:
        label = self._labels.of(tenant)
        if label not in self._started:
            self._start((label,))
        return label

    def _start(self, tenants: Iterable[str]) -> None:
        for tenant in tenants:
            self._started.add(tenant)
            for name, values in self._values.items():
                for labels in FIRST.get(name, ((),)):
                    values[tenant, *labels] += 0.0

    def _filled(
        self, family: CounterMetricFamily | GaugeMetricFamily, values: dict[Key, float]
    ) -> Metric:
        # `sorted` copies first, in one go: the scheduler's thread may add a series meanwhile.
        for key, value in sorted(values.items()):
            family.add_metric((self._config.policy, *key), value)
        return family

    def _histogram(self, name: str, text: str, histogram: "Histogram") -> Metric:
        family = HistogramMetricFamily(name, text, labels=("policy",))
        family.add_metric((self._config.policy,), *histogram.read())
        return family


class Histogram:
    """Counts by duration; observed by one thread, read by another."""

    def __init__(self, bounds: Sequence[float] = STEP_BUCKETS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect.bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulated counts by upper bound, and the sum."""
        total, sums = 0, []
        for bound, count in zip((*self._bounds, float("inf")), tuple(self._counts), strict=True):
            total += count
            sums.append(("+Inf" if bound == float("inf") else repr(bound), float(total)))
        return sums, self._sum


def own_version() -> str:
    """The version of the installed package."""
    with contextlib.suppress(PackageNotFoundError):
        return version("tenantry")
    return "unknown"


def _constant(name: str, text: str, labels: dict[str, str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), 1.0)
    return family
