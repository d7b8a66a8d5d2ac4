"""The arithmetic of rows, on results that are made up."""

from typing import Any

import pytest

from tenantry_bench.gates import clients, fidelity, neighbour, weights
from tenantry_bench.gates.evidence import Evidence
from tenantry_bench.gates.group import Plan, Results
from tenantry_bench.gates.jobs import Fidelity, Job

PLAN = Plan(seeds=(1, 2), family=(1, 2), data="somewhere")


def a_result(requests: dict[str, Any], service: float = 1.0, **more: Any) -> dict[str, Any]:
    """A run of 240 seconds in which each second has this service and half a GPU second each."""
    tenants = sorted({each[0] for each in requests.values()} | {"quiet"})
    return {
        "tenants": tenants,
        "end": 240.0,
        "cpu": 2.0,
        "window": [10.0, 180.0],
        "shares": {},
        "requests": requests,
        "times": {name: [each[2], each[3]] for name, each in requests.items()},
        "bins": {
            "service": [[service] * len(tenants)] * 240,
            "gpu": [[0.5] * len(tenants)] * 240,
            "preempted": [[0.0] * len(tenants)] * 240,
        },
    } | more


def quiet(ttft: float, e2e: float, count: int = 150, **more: Any) -> dict[str, Any]:
    requests = {f"q-{i}": ["quiet", 20.0 + i, ttft, e2e, "finished", 0.1] for i in range(count)}
    return a_result(requests, **more)


def test_ratios_of_the_noisy_neighbour_are_those_of_its_arms() -> None:
    first = neighbour.VARIATIONS[0]
    found: dict[Job, dict[str, Any]] = {}
    for seed in PLAN.family:
        found[neighbour.run(first, "tenantry", seed)] = quiet(0.4, 0.43, service=9.0)
        found[neighbour.run(first, "stock", seed)] = quiet(40.0, 50.0, service=10.0)
        found[neighbour.run(first, "alone", seed)] = quiet(0.2, 0.22)
    rows = {row.claim.id: row for row in neighbour.rows(PLAN, Results(found))}
    values = {name: row.value for name, row in rows.items() if row.value is not None}
    assert values["N1.ttft.p99"] == pytest.approx(2.0)
    assert values["N1.itl.p99"] == pytest.approx(30.0)
    assert values["N1.itl.ratio"] == pytest.approx(1.5)
    assert values["N1.service"] == pytest.approx(0.9)
    assert values["N1.stock.ttft.p99"] == pytest.approx(200.0)
    assert rows["N1.ttft.p99"].n == 300
    assert (rows["N1.ttft.p99"].verdict, rows["N1.service"].verdict) == ("reached", "not reached")
    assert rows["N1p.ttft.p99"].verdict == "not run"


def test_one_lost_request_misses_the_gate() -> None:
    first = neighbour.VARIATIONS[0]
    lost = quiet(0.4, 0.43)
    lost["requests"]["q-0"][4] = "refused"
    found: dict[Job, dict[str, Any]] = {
        neighbour.run(first, "tenantry", 1): quiet(0.4, 0.43),
        neighbour.run(first, "tenantry", 2): lost,
    }
    rows = {row.claim.id: row for row in neighbour.rows(PLAN, Results(found))}
    assert (rows["N1.refused"].value, rows["N1.refused"].reached) == (1.0, False)


def test_a_share_moves_by_as_much_as_it_differs_from_the_first() -> None:
    requests = {"a-0": ["a", 20.0, 0.1, 0.2, "finished", 0.1]}
    found: dict[Job, dict[str, Any]] = {}
    for seed in PLAN.seeds:
        found[weights.run(weights.BASE, seed)] = a_result(requests)
        more = a_result(requests)
        more["bins"]["gpu"] = [[0.55, 0.45]] * 240
        found[weights.run("N8-64x4", seed)] = more
    rows = {row.claim.id: row for row in weights.rows(PLAN, Results(found))}
    assert rows["N8-64x4.share"].value == pytest.approx(10.0)


def test_the_worst_seed_counts_for_a_share() -> None:
    found: dict[Job, dict[str, Any]] = {
        weights.run("N6-same", seed): a_result({}, shares={"error": error, "gap": 0.1, "jain": 1.0})
        for seed, error in ((1, 0.01), (2, 0.03))
    }
    rows = {row.claim.id: row for row in weights.rows(PLAN, Results(found))}
    assert rows["N6-same.error"].value == pytest.approx(3.0)
    assert rows["N6-same.error"].seeds == ((1, 1.0), (2, 3.0))


def test_under_its_share_is_who_asks_for_less_than_an_equal_part() -> None:
    requests = {
        "l-0": ["light", 20.0, 0.1, 0.2, "finished", 50.0],
        "h-0": ["heavy", 20.0, 0.1, 0.2, "finished", 60.0],
        "h-1": ["heavy", 21.0, 0.1, 0.2, "finished", 60.0],
        "late": ["light", 200.0, 0.1, 0.2, "finished", 500.0],
    }
    assert clients.light([Evidence(a_result(requests))]) == ["light"]


def test_clients_are_judged_one_by_one_where_they_have_enough_requests() -> None:
    def run(ttft: float) -> dict[str, Any]:
        many = {f"m-{i}": ["many", 20.0 + i, ttft, 9.0, "finished", 0.01] for i in range(60)}
        few = {f"f-{i}": ["few", 20.0 + i, 2 * ttft, 9.0, "finished", 0.01] for i in range(5)}
        return a_result(many | few)

    found: dict[Job, dict[str, Any]] = {}
    for seed in PLAN.seeds:
        found[clients.run(PLAN, "N7-1.1", "tenantry", seed)] = run(0.3)
        found[clients.run(PLAN, "N7-1.1", "dedicated", seed)] = run(0.2)
    rows = {row.claim.id: row for row in clients.rows(PLAN, Results(found))}
    assert rows["N7-1.1.ttft.p99"].value == pytest.approx(1.5)
    assert (rows["N7-1.1.ttft.p99"].n, rows["N7-1.1.pooled.p99"].n) == (120, 10)


def test_errors_of_the_simulator_are_averaged_without_their_sign() -> None:
    pairs = [{"workload": "fixed", "tpot": [10.0, 11.0], "e2e": [100.0, 100.0]}]
    pairs.append({"workload": "mixed", "tpot": [10.0, 9.8], "e2e": [100.0, 90.0]})
    found: dict[Job, dict[str, Any]] = {Fidelity("a100", PLAN.data): {"compared": pairs}}
    rows = {row.claim.id: row for row in fidelity.rows(PLAN, Results(found))}
    assert rows["fidelity.a100.tpot"].value == pytest.approx(6.0)
    assert rows["fidelity.a100.tpot.mixed"].value == pytest.approx(2.0)
    assert rows["fidelity.a100.e2e"].value == pytest.approx(5.0)
