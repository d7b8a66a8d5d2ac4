"""The operator's own metrics and its health, on one port."""

from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class OperatorMetrics:
    """Counters of one operator; the registry is an argument so that tests do not share one."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._seconds = Histogram(
            "tenantry_reconcile_seconds",
            "How long one reconcile of a policy took.",
            buckets=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
            registry=registry,
        )
        self._count = Counter(
            "tenantry_reconciles", "Reconciles by result.", ["result"], registry=registry
        )
        self._policies = Gauge(
            "tenantry_policies", "Policies by readiness.", ["ready"], registry=registry
        )
        info = Gauge(
            "tenantry_build_info", "Always 1.", ["component", "version"], registry=registry
        )
        info.labels("operator", version).set(1)
        for result in ("ok", "invalid", "conflict", "error"):
            self._count.labels(result)
        self.policies(())

    def reconciled(self, result: str, seconds: float) -> None:
        """One reconcile ended."""
        self._count.labels(result).inc()
        self._seconds.observe(seconds)

    def policies(self, ready: Iterable[bool]) -> None:
        """How many policies there are, by readiness."""
        found = list(ready)
        self._policies.labels("true").set(sum(found))
        self._policies.labels("false").set(len(found) - sum(found))


def application(metrics: OperatorMetrics, healthy: Callable[[], str]) -> web.Application:
    """`/metrics`, `/healthz` and `/readyz`; `healthy` says what is wrong, or nothing."""

    async def page(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(_: web.Request) -> web.Response:
        trouble = healthy()
        return web.Response(text=trouble or "ok", status=503 if trouble else 200)

    app = web.Application()
    app.router.add_get("/metrics", page)
    app.router.add_get("/healthz", health)
    app.router.add_get("/readyz", health)
    return app
