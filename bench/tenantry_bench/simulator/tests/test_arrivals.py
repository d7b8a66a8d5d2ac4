"""What arrives: the same for every arm, as often and as long as the scenario says."""

import math
import statistics
from itertools import pairwise

import pytest

from tenantry_bench.simulator import catalogue
from tenantry_bench.simulator.arrivals import Feed, draw, stream
from tenantry_bench.simulator.scenario import Length, Recorded, Scenario, Shape, Tenant
from tenantry_bench.simulator.tests.small import SHORT, a_scenario


def all_of(scenario: Scenario, seed: int = 1) -> list[Recorded]:
    return list(Feed(scenario, seed).due(math.inf))


def test_the_same_seed_gives_the_same_requests_and_another_seed_others() -> None:
    scenario = a_scenario()
    assert all_of(scenario, 3) == all_of(scenario, 3)
    assert all_of(scenario, 3) != all_of(scenario, 4)


def test_a_tenant_sends_the_same_alone_as_beside_others() -> None:
    scenario = a_scenario()
    beside = [each for each in all_of(scenario) if each.tenant == "light"]
    assert all_of(scenario.only("light")) == beside


def test_requests_come_by_time_and_only_until_the_end() -> None:
    times = [each.t for each in all_of(a_scenario(seconds=50.0))]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 50.0


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = [each for each in all_of(a_scenario(seconds=10.0)) if each.tenant == "heavy"]
    long = [each for each in all_of(a_scenario(seconds=30.0)) if each.tenant == "heavy"]
    assert long[: len(short)] == short


@pytest.mark.parametrize("cv", [1.0, 3.0], ids=["poisson", "bursty"])
def test_an_open_loop_has_its_rate_and_its_burstiness(cv: float) -> None:
    scenario = a_scenario(Tenant("a", (SHORT,), rate=10.0, cv=cv), seconds=4000.0)
    times = [each.t for each in all_of(scenario)]
    gaps = [b - a for a, b in pairwise(times)]
    assert len(times) / 4000.0 == pytest.approx(10.0, rel=0.1)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(cv, rel=0.15)


@pytest.mark.parametrize(("mean", "cv"), [(512, 0.8), (128, 0.8), (1049, 1.12)])
def test_lengths_have_their_mean_and_spread_and_are_never_tiny(mean: float, cv: float) -> None:
    numbers = stream(1, "x", "lengths", "a")
    found = [draw(Length(mean, cv), numbers) for _ in range(20_000)]
    assert min(found) >= 8
    assert statistics.mean(found) == pytest.approx(mean, rel=0.05)
    assert statistics.stdev(found) / statistics.mean(found) == pytest.approx(cv, rel=0.1)


def test_uniform_lengths_and_given_pairs_stay_in_their_bounds() -> None:
    numbers = stream(1, "x", "lengths", "a")
    assert {draw(Length(low=3, high=5), numbers) for _ in range(200)} == {3, 4, 5}
    pairs = ((10, 20), (30, 40))
    found = all_of(a_scenario(Tenant("a", (Shape(pairs=pairs),), burst=50)))
    assert {(each.prompt, each.output) for each in found} == set(pairs)


def test_a_closed_loop_sends_the_next_request_when_one_has_ended() -> None:
    feed = Feed(a_scenario(Tenant("a", (SHORT,), in_flight=3, connections=3)), 1)
    begun = list(feed.due(0.0))
    assert len({each.name for each in begun}) == 3
    assert feed.next_at() == math.inf
    feed.ended("a", 2.5)
    (following,) = feed.due(2.5)
    assert following.t == 2.5
    assert following.name not in {each.name for each in begun}


def test_a_closed_loop_sends_nothing_after_the_end() -> None:
    feed = Feed(a_scenario(Tenant("a", (SHORT,), in_flight=1), seconds=5.0), 1)
    list(feed.due(0.0))
    feed.ended("a", 5.0)
    assert feed.next_at() == math.inf


@pytest.mark.parametrize("name", [*catalogue.SCENARIOS])
def test_every_scenario_gives_requests_with_lengths_in_bounds(name: str) -> None:
    scenario = catalogue.SCENARIOS[name].scaled(lambda prompt, output: 1e-4 * (prompt + output))
    feed = Feed(scenario.lasting(20.0), 1)
    found = list(feed.due(20.0))
    assert {each.tenant for each in found} <= set(scenario.names)
    assert all(each.prompt > 0 and each.output > 0 and each.limit == 4096 for each in found)
    assert found


@pytest.mark.parametrize(
    ("duration", "window"), [(240.0, (10.0, 180.0)), (300.0, (10.0, 240.0)), (24.0, (1.0, 18.0))]
)
def test_the_measured_window_moves_with_the_duration(
    duration: float, window: tuple[float, float]
) -> None:
    assert catalogue.SCENARIOS["N1"].lasting(duration).window == pytest.approx(window)


def test_a_family_is_all_of_its_scenarios() -> None:
    assert [each.name for each in catalogue.find("N4")] == ["N4-azure", "N4-reasoning"]
    assert [each.name for each in catalogue.find("N1")] == ["N1"]


def test_a_fan_of_connections_sends_the_same_lengths_whatever_its_width() -> None:
    found = [
        [(each.prompt, each.output) for each in Feed(catalogue.SCENARIOS[name], 1).due(0.0)]
        for name in ("N8-64x1", "N8-64x16")
    ]
    assert found[0] == found[1]
    names = {each.name for each in Feed(catalogue.SCENARIOS["N8-64x16"], 1).due(0.0)}
    assert sum(name.startswith("a-c15-") for name in names) == 4


def test_shares_follow_weights() -> None:
    scenario = catalogue.SCENARIOS["N6-same"]
    assert [scenario.share(name) for name in scenario.names] == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def test_a_utilisation_scales_rates_to_the_work_that_comes_in() -> None:
    scenario = catalogue.SCENARIOS["N7-1.1"].scaled(lambda prompt, output: 1e-4 * (prompt + output))
    work = sum(tenant.rate * 1e-4 * sum(tenant.shapes[0].means) for tenant in scenario.tenants)
    assert work == pytest.approx(1.1)
    assert scenario.scaled(lambda *_: 1.0) is scenario
