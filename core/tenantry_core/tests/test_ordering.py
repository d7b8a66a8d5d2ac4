"""A suite that every ordering of the table passes, and what each one claims for itself."""

import heapq
import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import ordering
from tenantry_core.ordering import (
    INF,
    ORDERINGS,
    Job,
    Order,
    Ordering,
    Parameters,
    State,
    expired,
    volume,
)
from tenantry_core.tests.lots import Lots

WILD = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1.7e9, 5e-324, INF, -INF, math.nan])
WHOLE = st.integers(-(10**30), 10**30) | st.integers(-2, 2)
STATES = st.builds(
    State,
    st.builds(
        Parameters,
        st.sampled_from([0.0, 1.0, 600.0, INF]),
        st.sampled_from([0.0, 25.0]),
        st.sampled_from([0.0, 0.1, INF]),
        st.sampled_from([0.0, 60.0, 1e300]),
    ),
    WILD,
)
FIELDS: dict[str, Any] = {
    "arrival": WILD,
    "tenant": st.sampled_from("ab"),
    "priority": WHOLE,
    "weight": WILD,
    "prompt": st.integers(0, 2**63),
    "context": st.integers(0, 2**63),
    "length": WILD,
    "seconds": WILD,
    "deadline": WILD,
    "preempted": st.integers(0, 2**40) | st.integers(0, 5),
}
ANY = st.builds(Job, st.text(max_size=3), **FIELDS)
DIFFERENT = st.lists(ANY, max_size=20, unique_by=lambda job: job.request)
EVERY = pytest.mark.parametrize("key", ORDERINGS.values(), ids=list(ORDERINGS))
NAMES = pytest.mark.parametrize("name", ORDERINGS)
NOTHING: Any = (INF, INF, INF, INF, INF, "")
"""A key that is after all others."""


def a_job(request: str = "a", arrival: float = 0.0, **other: Any) -> Job:
    return Job(request, arrival, **{"tenant": "t", **other})


def some_jobs(lots: Lots, number: int) -> list[Job]:
    return [
        Job(
            f"r{each}",
            arrival=float(each // 2),
            tenant=lots.pick("abc"),
            priority=lots.below(3),
            weight=lots.pick([0.0, 1.0, 3.0]),
            prompt=1 + lots.below(4000),
            context=1 + lots.below(4000),
            length=lots.uniform(1, 900),
            seconds=lots.uniform(0, 2),
            deadline=lots.pick([INF, each + 5.0]),
            preempted=lots.pick([0, 0, 0, 1, 4]),
        )
        for each in range(number)
    ]


def served(key: Callable[[Job], Any], jobs: list[Job]) -> list[str]:
    return [job.request for job in sorted(jobs, key=key)]


# --- every ordering --------------------------------------------------------------


@EVERY
@given(jobs=DIFFERENT, state=STATES)
def test_no_key_is_nan_and_no_two_requests_have_the_same(
    key: Ordering, jobs: list[Job], state: State
) -> None:
    keys = [key(job, state) for job in jobs]
    assert not any(math.isnan(number) for found in keys for number in found[:-1])
    assert all((a < b) != (b < a) for a, b in itertools.combinations(keys, 2))


@EVERY
@given(jobs=DIFFERENT, state=STATES, chance=st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_who_was_put_in_first(
    key: Ordering, jobs: list[Job], state: State, chance: Any
) -> None:
    shuffled = list(jobs)
    chance.shuffle(shuffled)

    def keyed(job: Job) -> Any:
        return key(job, state)

    assert served(keyed, shuffled) == served(keyed, jobs)


@NAMES
def test_a_thousand_equal_requests_come_out_by_their_ids(name: str) -> None:
    jobs = [Job(f"r{each:04}", 12.6, "t" if each % 2 else "u", priority=1) for each in range(1000)]
    heap = [(Order(name)(job), job) for job in reversed(jobs)]
    heapq.heapify(heap)  # a job cannot be compared: a tie that reached it would raise
    popped = [heapq.heappop(heap)[1].request for _ in jobs]
    assert popped == sorted(popped)


@EVERY
def test_of_equals_the_earlier_goes_first_and_then_the_smaller_id(key: Ordering) -> None:
    jobs = [a_job("a", 2.0), a_job("b", 1.0), a_job("a", 1.0)]
    assert sorted(jobs, key=key) == [a_job("a", 1.0), a_job("b", 1.0), a_job("a", 2.0)]


PROGRAM = """
from tenantry_core.ordering import ORDERINGS, Job
tenants = sorted({"a", "b", "c"}, key=hash)
jobs = [Job(f"c-{n}", 12.6, tenants[n % 3], n % 2, length=n % 4) for n in sorted(set(range(40)))]
by = {job.request: job for job in jobs}
queued = [by[name] for name in set(by)]
print([[job.request for job in sorted(queued, key=key)] for key in ORDERINGS.values()])
"""


def test_two_processes_with_different_hash_seeds_agree() -> None:
    def answer(seed: str) -> str:
        # A fixed program of our own, run by this interpreter.
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    assert answer("1") == answer("2")


@NAMES
def test_each_pop_is_the_least_of_what_waits_at_that_moment(name: str) -> None:
    for seed in range(20):
        lots = Lots(seed)
        order = Order(name)
        waiting: dict[str, Job] = {}
        heap: list[tuple[Any, str]] = []
        jobs = some_jobs(lots, 200)
        for job in jobs:
            order.arrived(job)
        for job in jobs:
            waiting[job.request] = job
            heapq.heappush(heap, (order(job), job.request))
            if lots.uniform() < 0.4:
                request = heapq.heappop(heap)[1]
                taken = waiting.pop(request)
                assert order(taken) <= min(
                    (order(each) for each in waiting.values()), default=NOTHING
                )
                if lots.uniform() < 0.2:  # passed over: it comes back with its first arrival
                    waiting[request] = taken
                    heapq.heappush(heap, (order(taken), request))


@EVERY
@given(state=STATES, fields=st.fixed_dictionaries({**FIELDS, "preempted": st.just(0)}))
def test_one_that_was_sent_back_goes_before_its_equals_three_times(
    key: Ordering, state: State, fields: dict[str, Any]
) -> None:
    state = replace(state, parameters=replace(state.parameters, level=60.0))
    plain = {**fields, "arrival": 9.0, "deadline": 50.0}
    rival = Job("b", **plain)
    for times in range(1, 4):
        assert key(Job("a", **{**plain, "arrival": 10.0, "preempted": times}), state) < key(
            rival, state
        )


@EVERY
@pytest.mark.parametrize("times", [4, 5, 40])
def test_after_three_times_it_is_its_rivals_turn(key: Ordering, times: int) -> None:
    size = {"prompt": 1000, "context": 1000, "length": 100.0, "seconds": 1.0}
    sent_back = Job("a", 10.0, "t", preempted=times, **size)  # type: ignore[arg-type]
    assert key(Job("b", 9.0, "t", **size)) < key(sent_back)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Cost", "Weighted", "SJF", "SVF"])
def test_a_nearly_done_one_that_is_sent_back_for_ever_does_not_keep_a_large_one_out(
    name: str,
) -> None:
    order = Order(name)
    rival = order(Job("b", 9.0, "t", prompt=1000, context=1000, length=1000.0, seconds=8.0))
    small = Job("a", 10.0, "t", prompt=100, context=1000, length=10.0, seconds=0.1)
    turns = [order(replace(small, preempted=times)) < rival for times in range(20)]
    assert turns == sorted(turns, reverse=True)
    assert not turns[12]


def test_no_boosts_are_no_boosts() -> None:
    order = Order("FIFO", Parameters(boosts=0))
    assert order(a_job("b", 9.0)) < order(a_job("a", 10.0, preempted=1))


# --- what each one goes by ---------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """The field that an ordering goes by, and two values of it, the first to be served first."""

    name: str
    field: str
    first: Any
    then: Any


CLAIMS = [
    Claim("Cost", "seconds", 0.1, 0.1000001),
    Claim("FIFO", "arrival", 1.0, 1.0000001),
    Claim("Priority", "priority", 2**53 + 1, 2**53),
    Claim("Weighted", "weight", 1e13, 1e7),
    Claim("Weighted", "weight", 1e-9, 0.0),
    Claim("Weighted", "prompt", 100, 101),
    Claim("Weighted", "length", 100.0, 101.0),
    Claim("SJF", "length", 5.0, 5.0000001),
    Claim("AgingPriority", "priority", 1, 0),
    Claim("SVF", "length", 5.0, 6.0),
    Claim("SVF", "context", 5, 6),
    Claim("SVF1Bit", "length", 5.0, 500.0),
    Claim("SVF1Bit", "context", 5, 5000),
    Claim("Deadline", "deadline", 1.7e9 + 10.005, 1.7e9 + 15.0),
    Claim("Deadline", "deadline", 1e300, INF),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.name}-{claim.field}")
def test_an_ordering_goes_by_the_field_it_names(claim: Claim) -> None:
    usual = {"arrival": 1.7e9, "prompt": 40, "context": 40, "length": 40.0}
    theta = State(theta=10_000.0)
    first = Job("b", **{**usual, claim.field: claim.first})
    then = Job("a", **{**usual, claim.field: claim.then})
    key = ORDERINGS[claim.name]
    assert key(first, theta) < key(then, theta)


@pytest.mark.parametrize("other", [name for name in ORDERINGS if name != "FIFO"])
def test_what_is_the_same_in_all_of_them_goes_by_arrival(other: str) -> None:
    jobs = [a_job(f"r{9 - each}", float(each), prompt=7, length=7.0) for each in range(10)]
    assert served(Order(other), jobs) == served(Order("FIFO"), jobs)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100))
def test_by_cost_nobody_is_passed_by_what_comes_later_than_its_handicap(
    arrival: float, other: float, seconds: float, fewer: float
) -> None:
    order = Order("Cost")
    large, small = a_job("a", arrival, seconds=seconds), a_job("b", other, seconds=fewer)
    if order(small) < order(large):
        assert other <= arrival + 600.0 * seconds + 1e-6


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100))
def test_by_the_logarithm_of_cost_one_of_a_hundred_times_the_size_waits_seven_doublings(
    arrival: float, other: float, seconds: float, fewer: float
) -> None:
    order = Order("Cost", Parameters(aging=0.0, doubling=25.0))
    large, small = a_job("a", arrival, seconds=seconds), a_job("b", other, seconds=fewer)
    if order(small) < order(large):
        assert other <= arrival + 25.0 * math.log2(1.0 + seconds / 0.02) + 1e-6
    if 0.02 <= seconds <= 100.0 * fewer and order(small) < order(large):
        assert other <= arrival + 25.0 * 7.0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(-5, 5), st.integers(-5, 5))
def test_by_ageing_priority_nobody_is_passed_by_what_comes_later_than_the_levels_between(
    arrival: float, other: float, low: int, high: int
) -> None:
    order = Order("AgingPriority")
    if order(a_job("b", other, priority=high)) < order(a_job("a", arrival, priority=low)):
        assert other <= arrival + 60.0 * (high - low) + 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(-3, 3)), min_size=1, max_size=20),
    st.integers(100, 10_000),
)
def test_ageing_priority_is_the_order_of_base_plus_wait_at_any_moment(
    those: list[tuple[int, int]], now: int
) -> None:
    jobs = [a_job(f"{n:02}", float(at), priority=p) for n, (at, p) in enumerate(those)]

    def claim(job: Job) -> Any:
        return -(60.0 * job.priority + (now - job.arrival)), -job.priority, job.arrival, job.request

    assert served(Order("AgingPriority"), jobs) == served(claim, jobs)


def test_without_ageing_cost_is_fifo_and_with_all_of_it_pure_cost() -> None:
    jobs = [a_job("a", 1.0, seconds=3.0), a_job("b", 2.0, seconds=1.0), a_job("c", 9e9, seconds=0)]
    assert served(Order("Cost", Parameters(aging=0.0)), jobs) == ["a", "b", "c"]
    assert served(Order("Cost", Parameters(aging=INF)), jobs) == ["c", "b", "a"]


def test_weight_0_is_served_when_nobody_else_waits_and_by_size_among_its_like() -> None:
    jobs = [
        a_job("idle", 0.0, weight=0.0, prompt=9),
        a_job("idle-small", 0.0, weight=0.0, prompt=1),
        a_job("paying", 9e9, weight=1.0, prompt=10**6),
    ]
    assert served(Order("Weighted"), jobs) == ["paying", "idle-small", "idle"]


@pytest.mark.parametrize("weight", [math.nan, INF, -1.0, 0.0])
def test_a_weight_that_is_none_never_comes_first(weight: float) -> None:
    jobs = [a_job("odd", 0.0, weight=weight), a_job("sound", 5.0)]
    assert served(Order("Weighted"), jobs) == ["sound", "odd"]


def test_the_more_urgent_of_two_deadlines_goes_first_and_a_dead_one_last() -> None:
    jobs = [
        a_job("dead", 13.0, deadline=12.9),
        a_job("none", 13.0),
        a_job("5s", 13.0, deadline=18.0),
        a_job("5ms", 13.0, deadline=13.005),
        a_job("zero", 13.0, deadline=13.0),
    ]
    assert served(Order("Deadline"), jobs) == ["5ms", "5s", "none", "dead", "zero"]


@pytest.mark.parametrize("left", [0.0, -0.1, -INF])
def test_no_time_left_is_the_same_as_less_than_none(left: float) -> None:
    assert expired(a_job(deadline=20.0 + left), 20.0)
    assert not expired(a_job(deadline=20.001), 20.0)
    assert not expired(a_job(), 20.0)


def test_the_volume_is_the_sum_over_all_steps() -> None:
    job = a_job(context=100, length=7.0)
    assert volume(job) == sum(100 + step for step in range(1, 8))


def test_small_volumes_go_before_large_ones_once_some_have_been_seen() -> None:
    order = Order("SVF1Bit")
    large = a_job("large", 0.0, context=4000, length=900.0)
    small = a_job("small", 1.0, context=40, length=9.0)
    assert order(large) < order(small)
    for each in range(10):
        order.arrived(a_job(context=40 + each, length=9.0))
    assert order(small) < order(large)


@NAMES
@given(job=ANY, length=st.floats(1, 1e6), seconds=st.floats(0.001, 1e3))
def test_only_those_that_say_so_depend_on_predictions(
    name: str, job: Job, length: float, seconds: float
) -> None:
    other = replace(job, length=length, seconds=seconds)
    assert name in ordering.PREDICTED or Order(name)(other) == Order(name)(job)


# --- the table ------------------------------------------------------------------------


def test_the_default_is_in_the_table() -> None:
    assert ordering.DEFAULT in ORDERINGS


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no ordering 'LIFO'; there are Cost, FIFO, Priority"):
        Order("LIFO")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"aging": -1.0}, "aging is -1.0; give 0 or more"),
        ({"aging": math.nan}, "aging is nan"),
        ({"doubling": INF}, "give aging inf"),
        ({"token_aging": -0.1}, "token_aging is -0.1"),
        ({"level": INF}, "take the ordering Priority"),
        ({"boosts": -1}, "boosts is -1"),
        ({"quantile": 1.0}, "between 0 and 1"),
        ({"window": 0}, "1 request or more"),
    ],
)
def test_a_parameter_out_of_range_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parameters(**values)


def test_the_page_shows_the_table_of_parameters_and_every_ordering() -> None:
    page = Path(__file__).parents[3].joinpath("docs/reference/orderings.md").read_text("utf-8")
    for name in ORDERINGS:
        assert f"\n| `{name}`" in page
    for row in ordering.TABLE:
        assert f"| `{row.name}` | {row.default:g} | {row.unit} | {row.meaning} |" in page
