"""What the extender counts. Each series is declared once; gauges of slices are computed from the
snapshot when somebody asks, so those of removed policies are gone with them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tenantry_core.turns import Claimant
from tenantry_extender.books import Books
from tenantry_extender.snapshot import Key, Snapshot

ZERO = Fraction(0)
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@dataclass(frozen=True)
class Standing:
    """A policy's GPUs over all kinds of slices. `borrowed` is held beyond the entitlement; `lent`
    is the part of the entitlement that borrowers hold."""

    entitled: Fraction = ZERO
    used: Fraction = ZERO
    borrowed: Fraction = ZERO
    lent: Fraction = ZERO
    pending: Fraction = ZERO

    def plus(self, other: "Standing") -> "Standing":
        return Standing(
            self.entitled + other.entitled,
            self.used + other.used,
            self.borrowed + other.borrowed,
            self.lent + other.lent,
            self.pending + other.pending,
        )


def standings(snapshot: Snapshot) -> dict[Key, Standing]:
    total: dict[Key, Standing] = dict.fromkeys(snapshot.policies, Standing())
    for kind in snapshot.kinds:
        claimants = snapshot.claimants(kind)
        borrowed = sum((max(ZERO, c.used - c.entitled) for c in claimants), ZERO)
        missing = sum((max(ZERO, c.entitled - c.used) for c in claimants), ZERO)
        lent = min(Fraction(1), borrowed / missing) if missing else ZERO
        for claimant in claimants:
            pending = sum(pod.count for pod in claimant.waiting) * kind.size
            standing = _standing(claimant, pending, lent)
            total[claimant.key] = total.get(claimant.key, Standing()).plus(standing)
    return total


def _standing(claimant: Claimant, pending: Fraction, lent: Fraction) -> Standing:
    over = claimant.used - claimant.entitled
    return Standing(
        claimant.entitled, claimant.used, max(ZERO, over), max(ZERO, -over) * lent, pending
    )


class _FromBooks(Collector):
    def __init__(self, books: Books, clock: Callable[[], float]) -> None:
        self._books = books
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "tenantry_snapshot_age_seconds",
            "How old the extender's picture of the cluster may be.",
            value=self._books.age(self._clock()),
        )
        slices = GaugeMetricFamily(
            "tenantry_slices", "GPUs by claim.", labels=("namespace", "policy", "state")
        )
        for namespace, policy, state, gpus in self._rows():
            slices.add_metric((namespace, policy, state), gpus)
        yield slices

    def _rows(self) -> Iterator[tuple[str, str, str, float]]:
        for (namespace, policy), standing in sorted(standings(self._books.snapshot).items()):
            for state in ("entitled", "used", "borrowed", "lent", "pending"):
                yield namespace, policy, state, float(getattr(standing, state))


class ExtenderMetrics:
    """The counters of one process, in a registry of their own."""

    def __init__(self, books: Books, clock: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "tenantry_extender_request_seconds",
            "Time to answer kube-scheduler.",
            ("verb", "outcome"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._decisions = Counter(
            "tenantry_extender_decisions",
            "Decisions by their reason; for filter the commonest where no node was left.",
            ("verb", "reason"),
            registry=self.registry,
        )
        self._pokes = Counter(
            "tenantry_extender_pokes",
            "Refused pods that were woken because their turn had come.",
            ("outcome",),
            registry=self.registry,
        )
        build = Gauge("tenantry_build_info", "1.", ("component", "version"), registry=self.registry)
        build.labels("extender", metadata.version("tenantry")).set(1)
        self.registry.register(_FromBooks(books, clock))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """`outcome`: `ok`, or `error` where the answer carries an error."""
        self._seconds.labels(verb, outcome).observe(seconds)

    def decided(self, verb: str, reason: str) -> None:
        self._decisions.labels(verb, reason).inc()

    def poked(self, outcome: str) -> None:
        self._pokes.labels(outcome).inc()
