"""Restarts, probes, resources, identity maps: numbers in, answers out."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.agent import idmap, resources
from e2e.agent.exec_stream import outcome
from e2e.agent.probes import Timing, Verdict, named_ports
from e2e.agent.resources import NodeBooks
from e2e.agent.restarts import Backoff, starts_again


def test_the_first_restart_is_immediate_and_the_next_ones_wait_twice_as_long_each() -> None:
    backoff = Backoff(10.0, 300.0)
    assert [backoff.wait(n) for n in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


@given(st.integers(0, 10_000))
def test_no_wait_exceeds_the_longest(restarts: int) -> None:
    assert 0 <= Backoff(1.0, 30.0).wait(restarts) <= 30.0


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 1, False),
    ],
)
def test_a_container_starts_again_as_its_policy_says(
    policy: str, code: int, expected: bool
) -> None:
    assert starts_again(policy, code) is expected


def _fed(verdict: Verdict, answers: str) -> Verdict:
    for answer in answers:
        verdict = verdict.after(answer == "y")
    return verdict


@pytest.mark.parametrize(
    ("good", "answers", "expected"),
    [
        pytest.param(True, "nn", True, id="two failures are not three"),
        pytest.param(True, "nnn", False, id="three failures in a row"),
        pytest.param(True, "nnynn", True, id="a success starts the count anew"),
        pytest.param(False, "y", False, id="one success is not two"),
        pytest.param(False, "yy", True, id="two successes in a row"),
        pytest.param(False, "yny", False, id="a failure starts the count anew"),
    ],
)
def test_a_probe_changes_its_verdict_at_its_thresholds(
    good: bool, answers: str, expected: bool
) -> None:
    timing = Timing(success_threshold=2, failure_threshold=3)
    assert _fed(Verdict(timing, good=good), answers).good is expected


def test_a_startup_probe_has_failed_only_after_all_its_tries() -> None:
    verdict = Verdict(Timing(failure_threshold=3), good=False)
    assert not _fed(verdict, "nn").failed
    assert _fed(verdict, "nnn").failed
    assert not _fed(verdict, "nny").failed


def test_a_probe_without_numbers_has_those_of_kubernetes() -> None:
    assert Timing.of({"httpGet": {}}) == Timing(0.0, 10.0, 1.0, 1, 3)
    assert Timing.of({"periodSeconds": 1, "failureThreshold": 180}).failure_threshold == 180


def test_ports_with_a_name_are_found_by_it() -> None:
    ports = [{"name": "http", "containerPort": 8000}, {"containerPort": 1}]
    assert named_ports({"ports": ports}) == {"http": 8000}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1500m", "1.5"), ("2Gi", "2147483648"), ("3k", "3000"), ("0.5", "0.5"), (4, "4")],
)
def test_quantities_are_numbers(text: object, expected: str) -> None:
    assert resources.quantity(text) == Decimal(expected)


def test_a_pod_claims_its_containers_or_its_largest_init_container() -> None:
    def container(gpus: int, **more: str) -> dict[str, object]:
        return {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}

    pod = {
        "spec": {
            "containers": [container(1), container(2)],
            "initContainers": [container(5), container(1, restartPolicy="Always")],
        }
    }
    assert resources.requested(pod) == {"pods": 1, "nvidia.com/gpu": 5}


GPUS = {"cpu": "4", "pods": "10", "nvidia.com/gpu": "2"}


def test_a_node_refuses_devices_that_others_hold() -> None:
    books = NodeBooks("gpu-0")
    wanted = {"nvidia.com/gpu": Decimal(2)}
    assert books.check(wanted, GPUS) is None
    books.take("a", wanted)
    refusal = books.check({"nvidia.com/gpu": Decimal(1)}, GPUS)
    assert refusal is not None
    assert refusal.reason == "UnexpectedAdmissionError"
    assert "nvidia.com/gpu. Requested: 1, Available: 0" in refusal.message
    books.release("a")
    assert books.check(wanted, GPUS) is None


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"cpu": Decimal(5)}, "OutOfcpu"),
        ({"nvidia.com/mig-1g.5gb": Decimal(1)}, "OutOfnvidia.com/mig-1g.5gb"),
    ],
)
def test_a_node_refuses_what_it_does_not_have(wanted: dict[str, Decimal], reason: str) -> None:
    refusal = NodeBooks("gpu-0").check(wanted, GPUS)
    assert refusal is not None
    assert refusal.reason == reason


def test_devices_are_numbered_without_overlap_and_given_again() -> None:
    books, name = NodeBooks("gpu-0"), "nvidia.com/gpu"
    books.take("a", {name: Decimal(2)})
    books.take("b", {name: Decimal(1)})
    books.release("a")
    books.take("c", {name: Decimal(3)})
    assert books.devices["b"][name] == (2,)
    assert books.devices["c"][name] == (0, 1, 3)


@pytest.mark.parametrize(
    ("held", "replicas", "expected"),
    [
        ({"nvidia.com/gpu": (0, 2)}, 1, "GPU-n-0,GPU-n-2"),
        ({"nvidia.com/gpu.shared": (2, 3)}, 2, "GPU-n-1"),
        ({"nvidia.com/mig-3g.40gb": (1,)}, 1, "MIG-n-1"),
        ({}, 1, ""),
    ],
    ids=["whole", "two halves of one", "mig", "none"],
)
def test_a_pod_sees_the_physical_gpus_of_its_devices(
    held: dict[str, tuple[int, ...]], replicas: int, expected: str
) -> None:
    assert resources.visible_devices("n", held, replicas) == expected


@given(st.integers(0, 70_000), st.sampled_from([1, 65_536, 4_294_967_295]))
def test_an_identity_map_gives_the_wanted_one_and_no_number_twice(wanted: int, size: int) -> None:
    entries = [tuple(map(int, line.split())) for line in idmap.lines(wanted, size).splitlines()]
    assert entries[0] == (wanted, 0, 1)
    assert sum(count for _, _, count in entries) == size
    for side in (0, 1):
        spans = sorted((entry[side], entry[side] + entry[2]) for entry in entries)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_an_exit_status_reaches_kubectl_in_its_own_words() -> None:
    assert outcome(0)["status"] == "Success"
    assert outcome(3)["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
