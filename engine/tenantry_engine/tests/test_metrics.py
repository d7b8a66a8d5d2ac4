import re
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tenantry_engine.config import ConfigError, EngineConfig
from tenantry_engine.door_metrics import DoorMetrics
from tenantry_engine.labels import Labels, buckets
from tenantry_engine.metrics import COUNTERS, GAUGES, EngineMetrics, Histogram
from tenantry_engine.tests.policies import a_config

# Names, types and labels of the contract, for what this version measures in the engine process.
CONTRACT = {
    "tenantry_tokens": ("counter", {"policy", "tenant", "kind"}),
    "tenantry_gpu_seconds": ("counter", {"policy", "tenant"}),
    "tenantry_running_requests": ("gauge", {"policy", "tenant"}),
    "tenantry_waiting_requests": ("gauge", {"policy", "tenant"}),
    "tenantry_tenant_weight": ("gauge", {"policy", "tenant"}),
    "tenantry_share_ratio": ("gauge", {"policy", "tenant", "kind"}),
    "tenantry_preemptions": ("counter", {"policy", "tenant", "cause", "mode"}),
    "tenantry_inversions": ("counter", {"policy", "tenant"}),
    "tenantry_recomputed_tokens": ("counter", {"policy", "tenant"}),
    "tenantry_prefix_query_tokens": ("counter", {"policy", "tenant"}),
    "tenantry_prefix_hit_tokens": ("counter", {"policy", "tenant"}),
    "tenantry_step_seconds": ("histogram", {"policy"}),
    "tenantry_step_predicted_seconds": ("histogram", {"policy"}),
    "tenantry_fairness_jain_index": ("gauge", {"policy"}),
    "tenantry_engine_active": ("gauge", {"policy", "reason"}),
    "tenantry_policy_info": (
        "gauge",
        {"policy", "hash", "mode", "fairness", "ordering", "eviction"},
    ),
    "tenantry_build_info": ("gauge", {"component", "version"}),
}


class Board:
    """Metrics with a registry of their own."""

    def __init__(self, config: EngineConfig) -> None:
        self.registry = CollectorRegistry()
        self.metrics = EngineMetrics(config, self.registry)

    def figure(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"policy": "chat", **labels})


def test_the_names_types_and_labels_are_those_of_the_contract() -> None:
    board = Board(a_config())
    board.metrics.jain(1.0)
    found = {
        family.name: (family.type, set(family.samples[0].labels) - {"le"})
        for family in board.registry.collect()
    }
    assert found == CONTRACT


def test_series_of_configured_tenants_exist_at_0_from_the_start() -> None:
    board = Board(a_config("gold"))
    tenants = {"gold", "default"}
    for family in board.registry.collect():
        if family.name in (*COUNTERS, *GAUGES):
            assert {sample.labels["tenant"] for sample in family.samples} == tenants
            assert {sample.value for sample in family.samples} == {0.0}


def test_what_the_scheduler_reports_is_shown() -> None:
    board = Board(a_config("gold", "free", weights={"gold": 3.0, "free": 1.0}))
    metrics = board.metrics
    for _ in range(2):
        metrics.tokens("gold", "output", 5)
        metrics.gpu_seconds("gold", 0.25)
        metrics.preempted("free", "no_blocks")
        metrics.inversion("free")
        metrics.recomputed("free", 7)
        metrics.prefix("gold", queried=10, hit=4)
        metrics.requests("gold", running=2, waiting=3)
        metrics.shares("gold", 0.75, 0.5, 0.6)
        metrics.step(0.010, predicted=0.012)
    gold, free = {"tenant": "gold"}, {"tenant": "free"}
    assert board.figure("tenantry_tokens_total", kind="output", **gold) == 10
    assert board.figure("tenantry_gpu_seconds_total", **gold) == 0.5
    assert (
        board.figure("tenantry_preemptions_total", cause="no_blocks", mode="reactive", **free) == 2
    )
    assert board.figure("tenantry_inversions_total", **free) == 2
    assert board.figure("tenantry_recomputed_tokens_total", **free) == 14
    assert board.figure("tenantry_prefix_query_tokens_total", **gold) == 20
    assert board.figure("tenantry_prefix_hit_tokens_total", **gold) == 8
    assert board.figure("tenantry_running_requests", **gold) == 2
    assert board.figure("tenantry_waiting_requests", **gold) == 3
    assert board.figure("tenantry_share_ratio", kind="attained", **gold) == 0.6
    assert board.figure("tenantry_tenant_weight", **gold) == 3
    assert board.figure("tenantry_step_seconds_sum") == 0.02
    assert board.figure("tenantry_step_predicted_seconds_count") == 2


def test_one_series_says_whether_our_scheduler_decides() -> None:
    board = Board(a_config())
    board.metrics.active(True, "Enforce")
    assert board.figure("tenantry_engine_active", reason="Enforce") == 1
    board.metrics.active(False, "SeamMissing")
    assert board.figure("tenantry_engine_active", reason="Enforce") is None
    assert board.figure("tenantry_engine_active", reason="SeamMissing") == 0


def test_jains_index_is_absent_while_nobody_is_active() -> None:
    board = Board(a_config())
    assert board.figure("tenantry_fairness_jain_index") is None
    board.metrics.jain(0.9)
    assert board.figure("tenantry_fairness_jain_index") == 0.9
    board.metrics.jain(None)
    assert board.figure("tenantry_fairness_jain_index") is None


def test_another_policy_brings_its_tenants_and_takes_the_old_ones_away() -> None:
    board = Board(a_config("gold", "free", hash="aaa"))
    board.metrics.tokens("gold", "output", 5)
    board.metrics.tokens("free", "output", 5)
    board.metrics.policy(a_config("gold", "silver", hash="bbb", weights={"gold": 9.0}))
    tokens = {
        tenant: board.figure("tenantry_tokens_total", kind="output", tenant=tenant)
        for tenant in ("gold", "free", "silver")
    }
    assert tokens == {"gold": 5, "free": None, "silver": 0}
    assert board.figure("tenantry_tenant_weight", tenant="gold") == 9
    assert board.figure("tenantry_tenant_weight", tenant="free") is None
    hashes = [
        sample.labels["hash"]
        for family in board.registry.collect()
        for sample in family.samples
        if sample.name == "tenantry_policy_info"
    ]
    assert hashes == ["bbb"]


def test_a_tenant_that_nobody_named_begins_with_every_series() -> None:
    board = Board(a_config(open_tenants=True, default_weight=2.0))
    board.metrics.tokens("walk-in", "output", 1)
    assert board.figure("tenantry_gpu_seconds_total", tenant="walk-in") == 0
    assert board.figure("tenantry_tenant_weight", tenant="walk-in") == 2


def test_work_of_a_removed_tenant_that_still_runs_counts_as_other() -> None:
    board = Board(a_config("gold", "free"))
    board.metrics.policy(a_config("gold"))
    board.metrics.tokens("free", "output", 4)
    assert board.figure("tenantry_tokens_total", kind="output", tenant="free") is None
    assert board.figure("tenantry_tokens_total", kind="output", tenant="other") == 4


def test_past_a_thousand_tenants_the_rest_are_other() -> None:
    board = Board(a_config(open_tenants=True))
    for number in range(2000):
        board.metrics.tokens(f"t{number}", "output", 1)
    assert board.figure("tenantry_tokens_total", kind="output", tenant="other") == 1003
    assert board.figure("tenantry_tenant_weight", tenant="other") is None


def test_a_removed_tenant_makes_room_for_another() -> None:
    labels = Labels(a_config(*(f"t{number}" for number in range(999)), open_tenants=True))
    assert labels.of("late") == "other"
    gone = labels.change(a_config("t0", open_tenants=True))
    assert gone == {f"t{number}" for number in range(1, 999)}
    assert labels.of("late") == "late"


def test_the_figures_are_served_over_http(unused_tcp_port: int) -> None:
    board = Board(a_config())
    board.metrics.active(True, "Enforce")
    assert board.metrics.serve(unused_tcp_port, "127.0.0.1") == unused_tcp_port
    with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/metrics") as answer:
        text = answer.read().decode()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert set(CONTRACT) - {"tenantry_fairness_jain_index"} <= families
    board.metrics.close()


def test_a_port_in_use_is_one_sentence(taken_port: int) -> None:
    with pytest.raises(ConfigError, match=f":{taken_port}, is in use: set TENANTRY_METRICS_PORT"):
        Board(a_config()).metrics.serve(taken_port)


def test_port_0_serves_nothing() -> None:
    assert Board(a_config()).metrics.serve(0) == 0


def test_a_histogram_counts_into_the_bucket_that_holds_the_value() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(seconds)
    assert histogram.read() == ([("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)], 12.0)


def test_neighbouring_buckets_differ_by_a_third() -> None:
    bounds = buckets(-3, 3)
    assert (bounds[0], bounds[-1], len(bounds)) == (0.001, 1000.0, 49)
    ratios = [high / low for low, high in pairwise(bounds)]
    assert min(ratios) > 1.32
    assert max(ratios) < 1.35


def test_the_reference_lists_every_metric_with_its_type_and_labels() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    rows = [row.split("|") for row in page.read_text().splitlines() if row.startswith("| `")]
    documented = {
        (name, kind.strip(), frozenset(labels.replace(" ", "").split(",")))
        for _, names, kind, labels, *_ in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    registry = CollectorRegistry()
    board = Board(a_config())
    board.metrics.jain(1.0)
    DoorMetrics(a_config(), registry)
    shown = {
        (
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            frozenset(family.samples[0].labels) - {"le"},
        )
        for family in (*board.registry.collect(), *registry.collect())
    }
    assert shown == documented
