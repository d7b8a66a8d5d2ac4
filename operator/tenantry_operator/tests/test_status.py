"""The status as it is written."""

from typing import Any

import pytest

from tenantry_api import parse
from tenantry_api.conditions import ConditionType
from tenantry_operator import status
from tenantry_operator.events import ready_changed
from tenantry_operator.observed import Rollout
from tenantry_operator.status import Before
from tenantry_operator.tests.builders import a_body, a_pod, facts

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
TENANTS = [{"name": "gold", "weight": 3}, {"name": "free", "weight": "0.5"}]
PROGRESSING = Rollout(wanted=1, current=1, updated=1, seen=True)


def _written(before: Before, **given: Any) -> dict[str, Any]:
    return status.observed(facts(**given), "h2", before)


def _time(found: dict[str, Any], kind: ConditionType) -> str:
    times: dict[str, str] = {c["type"]: c["lastTransitionTime"] for c in found["conditions"]}
    return times[kind]


def test_it_says_what_the_columns_of_kubectl_read() -> None:
    found = _written(Before({}, 3, EARLY), tenants=TENANTS, gpu={"sharing": "MPS", "share": "0.5"})
    assert found["tenantNames"] == "gold, free"
    assert found["weights"] == "gold=3, free=500m"
    assert found["gpu"] == "0.5 MPS"
    assert found["observedGeneration"] == 3
    assert (found["replicas"], found["readyReplicas"]) == (1, 1)


def test_it_says_which_policy_is_wanted_and_which_is_in_force() -> None:
    found = _written(Before({}, 3, EARLY), pods=(a_pod("a"), a_pod("b")))
    assert found["policyHash"] == "h2"
    assert found["policyHashes"] == {"a": "h1", "b": "h1"}


def test_a_map_of_hashes_that_has_none_is_left_out() -> None:
    assert "policyHashes" not in _written(Before({"policyHashes": {"a": "h1"}}, 3, EARLY), pods=())


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        pytest.param({"count": 4}, "4", id="whole GPUs"),
        pytest.param({"sharing": "TimeSlicing", "share": "0.25"}, "0.25 TimeSlicing", id="share"),
        pytest.param({"sharing": "MIG", "migProfile": "3g.40gb"}, "3g.40gb MIG", id="MIG"),
    ],
)
def test_the_gpu_claim_reads_well(gpu: dict[str, Any], text: str) -> None:
    assert _written(Before({}, 1, EARLY), gpu=gpu)["gpu"] == text


def test_a_time_moves_only_when_the_state_flips() -> None:
    first = _written(Before({}, 1, EARLY), rollout=PROGRESSING)
    second = _written(Before(first, 1, LATE))
    assert _time(second, ConditionType.READY) == LATE
    assert _time(second, ConditionType.ACCEPTED) == EARLY


def test_nothing_new_is_no_reason_to_write() -> None:
    first = _written(Before({}, 1, EARLY))
    again = _written(Before(first, 1, LATE))
    assert not status.differs({**first, "tenants": []}, again)
    assert status.differs(first, _written(Before(first, 2, LATE)))


def test_many_names_are_cut_to_what_the_schema_allows() -> None:
    tenants = [{"name": f"{index}-" + "x" * 100} for index in range(20)]
    found = _written(Before({}, 1, EARLY), tenants=tenants)
    assert len(found["tenantNames"]) == status.LINE_LIMIT
    assert found["tenantNames"].endswith("...")


def test_a_refused_policy_tells_every_finding_and_keeps_the_rest() -> None:
    first = _written(Before({}, 1, EARLY))
    body = a_body(gpu={"count": 2, "sharing": "MPS"}, weight=-1)
    with pytest.raises(parse.Invalid) as refusal:
        parse.policy(body)
    found = status.refused(refusal.value, Before(first, 2, LATE))
    conditions = {c["type"]: c for c in found["conditions"]}
    for kind, state in {"Accepted": "False", "Ready": "False", "Stalled": "True"}.items():
        assert (conditions[kind]["status"], conditions[kind]["reason"]) == (state, "Invalid")
        for path in ("spec.gpu.count", "spec.gpu.share", "spec.weight"):
            assert path in conditions[kind]["message"]
    assert conditions["EngineActive"]["status"] == "True"
    assert (found["observedGeneration"], found["policyHash"]) == (2, "h2")


def test_an_event_tells_of_a_change_of_ready_only() -> None:
    first = _written(Before({}, 1, EARLY), rollout=PROGRESSING)
    second = _written(Before(first, 1, LATE))
    event = ready_changed(a_body(), first, second, LATE)
    assert event is not None
    assert (event["type"], event["reason"]) == ("Normal", "Ready")
    assert event["involvedObject"]["uid"] == "uid-1"
    assert ready_changed(a_body(), second, second, LATE) is None


def test_trouble_is_a_warning() -> None:
    first = _written(Before({}, 1, EARLY))
    broken = _written(
        Before(first, 1, LATE), rollout=PROGRESSING, pods=(a_pod(trouble="pod x: OOM"),)
    )
    event = ready_changed(a_body(), first, broken, LATE)
    assert event is not None
    assert (event["type"], event["message"]) == ("Warning", "pod x: OOM")
