"""Each condition, as a table of facts and verdicts."""

import pytest

from tenantry_api.conditions import ConditionType, Reason, State
from tenantry_core.placement import TEXTS, Misfit
from tenantry_operator import judge
from tenantry_operator.engines import Engine
from tenantry_operator.judge import VERDICTS, Facts, Obstacle
from tenantry_operator.observed import Rollout
from tenantry_operator.tests.builders import a_pod, facts

POD = a_pod()
WAITING = a_pod(placed=False, ready=False, running=False, unschedulable="0/2 nodes: no GPU")
HELD = a_pod(
    placed=False, ready=False, running=False, unschedulable=f"0/2: {TEXTS[Misfit.OVER_SHARE]}"
)
LARGE = a_pod(
    placed=False, ready=False, running=False, unschedulable=f"0/2: {TEXTS[Misfit.TOO_LARGE]}"
)
BROKEN = a_pod(ready=False, trouble="pod x, container engine: ErrImageNeverPull", stuck=True)
CRASHED = a_pod(ready=False, trouble="pod x, container engine: Error, exit code 1.")
NO_CLASS = Rollout(wanted=1, seen=True, refused="no PriorityClass with name gold was found")
PENDING = Rollout(wanted=1, current=1, updated=1, seen=True)
LATE = Rollout(wanted=1, current=1, updated=1, seen=True, late="timed out")
TAKEN = Obstacle(Reason.NAME_TAKEN, "Service chat belongs to somebody else")
LEAVING = Obstacle(Reason.PROGRESSING, "Deployment chat is being deleted", passing=True)


def _engines(active: bool | None, reason: str) -> dict[str, Engine]:
    return {POD.uid: Engine(active, reason, "h1")}


T, F, U = State.TRUE, State.FALSE, State.UNKNOWN


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(facts(), T, Reason.ENFORCE, id="our scheduler decides"),
        pytest.param(facts(scheduling={"mode": "Off"}, engines={}), U, Reason.OFF, id="mode Off"),
        pytest.param(
            facts(_engines(False, "Observe"), scheduling={"mode": "Observe"}),
            F,
            Reason.OBSERVE,
            id="mode Observe",
        ),
        pytest.param(
            facts(_engines(False, "SeamMissing"), scheduling={"mode": "Observe"}),
            F,
            Reason.SEAM_MISSING,
            id="mode Observe on a vLLM that does not fit",
        ),
        pytest.param(
            facts(_engines(False, "SeamMissing")), F, Reason.SEAM_MISSING, id="fallen back"
        ),
        pytest.param(
            facts(_engines(False, "Observe")), F, Reason.STALE_POLICY, id="not read the new mode"
        ),
        pytest.param(facts(_engines(False, "New")), F, Reason.ERROR, id="a reason of its own"),
        pytest.param(facts(_engines(None, "Unreachable")), U, Reason.UNREACHABLE, id="silent"),
        pytest.param(facts({}), U, Reason.PENDING, id="ready and not asked yet"),
        pytest.param(facts(pods=(), rollout=PENDING), U, Reason.PENDING, id="no pod yet"),
        pytest.param(
            facts(pods=(), rollout=Rollout(seen=True)), U, Reason.NO_REPLICAS, id="no replicas"
        ),
        pytest.param(
            facts(pods=(a_pod(ready=False),), engines=_engines(False, "SeamMissing")),
            F,
            Reason.SEAM_MISSING,
            id="fallen back before it is ready",
        ),
    ],
)
def test_engine_active(found: Facts, state: State, reason: Reason) -> None:
    assert judge.engine_active(found)[:2] == (state, reason)


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(facts(), T, Reason.FEASIBLE, id="every pod has a node"),
        pytest.param(facts(pods=(WAITING,)), F, Reason.NO_NODE, id="no node"),
        pytest.param(facts(pods=(HELD,)), F, Reason.NOT_ENTITLED, id="held by the extender"),
        pytest.param(facts(pods=(LARGE,)), F, Reason.NO_NODE, id="larger than every node"),
        pytest.param(facts(pods=(), rollout=PENDING), U, Reason.PENDING, id="no pod"),
        pytest.param(facts(pods=()), U, Reason.NO_REPLICAS, id="no replicas"),
        pytest.param(
            facts(pods=(), rollout=Rollout(), obstacle=TAKEN), U, Reason.NAME_TAKEN, id="name taken"
        ),
        pytest.param(facts(pods=(), rollout=NO_CLASS), U, Reason.ERROR, id="no pod may be made"),
        pytest.param(facts(pods=(a_pod(placed=False),)), U, Reason.PENDING, id="not looked at yet"),
    ],
)
def test_shares_feasible(found: Facts, state: State, reason: Reason) -> None:
    assert judge.shares_feasible(found)[:2] == (state, reason)


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(facts(), T, Reason.READY, id="serves"),
        pytest.param(facts(rollout=PENDING), F, Reason.PROGRESSING, id="rolling out"),
        pytest.param(facts(rollout=LATE), F, Reason.DEADLINE_EXCEEDED, id="late"),
        pytest.param(
            facts(rollout=PENDING, pods=(WAITING,)), F, Reason.NO_NODE, id="waits for a GPU"
        ),
        pytest.param(
            facts(rollout=PENDING, pods=(HELD,)), F, Reason.NOT_ENTITLED, id="over its share"
        ),
        pytest.param(facts(rollout=PENDING, pods=(BROKEN,)), F, Reason.ERROR, id="does not start"),
        pytest.param(facts(obstacle=TAKEN), F, Reason.NAME_TAKEN, id="name taken"),
        pytest.param(facts(obstacle=LEAVING), F, Reason.PROGRESSING, id="an old child leaves"),
        pytest.param(
            facts(_engines(False, "SeamMissing")), F, Reason.SEAM_MISSING, id="fallen back"
        ),
        pytest.param(facts({}), F, Reason.PENDING, id="engine not asked yet"),
        pytest.param(
            facts(_engines(None, "Unreachable")), F, Reason.UNREACHABLE, id="engine silent"
        ),
        pytest.param(
            facts({}, scheduling={"mode": "Off"}), T, Reason.READY, id="Off needs no plugin"
        ),
        pytest.param(
            facts(_engines(False, "Observe"), scheduling={"mode": "Observe"}),
            T,
            Reason.READY,
            id="Observe does not hold it back",
        ),
        pytest.param(
            facts(tenants=[{"name": "g", "objectives": {"ttft": {"p99": "1s"}}}]),
            T,
            Reason.READY,
            id="what is not enforced does not hold it back",
        ),
    ],
)
def test_ready(found: Facts, state: State, reason: Reason) -> None:
    assert judge.ready(found)[:2] == (state, reason)


@pytest.mark.parametrize(
    ("found", "reconciling", "stalled"),
    [
        pytest.param(facts(), F, F, id="done"),
        pytest.param(facts(rollout=PENDING), T, F, id="under way"),
        pytest.param(facts(rollout=LATE), F, T, id="late"),
        pytest.param(facts(obstacle=TAKEN), F, T, id="somebody has to act"),
        pytest.param(facts(obstacle=LEAVING), T, F, id="passes by itself"),
        pytest.param(facts(rollout=PENDING, pods=(BROKEN,)), F, T, id="a bad image"),
        pytest.param(facts(rollout=NO_CLASS, pods=()), F, T, id="no PriorityClass"),
        pytest.param(facts(rollout=PENDING, pods=(CRASHED,)), T, F, id="crashed once"),
        pytest.param(facts(rollout=PENDING, pods=(WAITING,)), T, F, id="waits for a GPU"),
    ],
)
def test_reconciling_and_stalled(found: Facts, reconciling: State, stalled: State) -> None:
    assert judge.reconciling(found).state is reconciling
    assert judge.stalled(found).state is stalled


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(facts(), T, Reason.ROLLED_OUT, id="done"),
        pytest.param(facts(rollout=PENDING), T, Reason.ROLLING_OUT, id="under way"),
        pytest.param(facts(rollout=LATE), F, Reason.DEADLINE_EXCEEDED, id="late"),
        pytest.param(facts(pods=(BROKEN,)), F, Reason.ERROR, id="a pod does not start"),
        pytest.param(
            facts(rollout=Rollout(wanted=1, refused="exceeded quota")),
            F,
            Reason.ERROR,
            id="no pod may be made",
        ),
        pytest.param(facts(obstacle=TAKEN), F, Reason.NAME_TAKEN, id="name taken"),
    ],
)
def test_rollout_unblocked(found: Facts, state: State, reason: Reason) -> None:
    assert judge.rollout_unblocked(found)[:2] == (state, reason)


@pytest.mark.parametrize(
    "found",
    [
        facts(rollout=PENDING, pods=(BROKEN,)),
        facts(rollout=LATE, pods=(BROKEN,)),
        facts(rollout=NO_CLASS, pods=()),
        facts(rollout=Rollout(), pods=(), obstacle=TAKEN),
    ],
    ids=["a bad image", "late", "no PriorityClass", "name taken"],
)
def test_what_keeps_a_policy_from_ready_stands_in_every_condition_that_it_concerns(
    found: Facts,
) -> None:
    ready = judge.ready(found)
    assert judge.stalled(found) == (T, *ready[1:])
    assert judge.reconciling(found) == (F, ready.reason, f"Somebody has to act first: {ready[2]}")
    assert judge.rollout_unblocked(found) == ready


def test_a_crash_is_told_while_it_is_waited_for_another_start() -> None:
    found = facts(rollout=PENDING, pods=(CRASHED,))
    assert judge.ready(found) == (F, Reason.ERROR, CRASHED.trouble)
    assert judge.reconciling(found).message.endswith(CRASHED.trouble)


def test_nobody_is_said_to_wait_where_there_are_no_engines() -> None:
    found = facts(pods=(), rollout=Rollout(), obstacle=TAKEN)
    for kind in (judge.shares_feasible, judge.engine_active):
        assert kind(found).message == f"There is no engine yet: {TAKEN.message}"


def test_fully_enforced_lists_the_paths() -> None:
    found = judge.fully_enforced(facts(tenants=[{"name": "gold", "limits": {"inFlight": 4}}]))
    assert found[:2] == (F, Reason.NOT_IMPLEMENTED)
    assert "spec.tenants[gold].limits.inFlight" in found.message
    assert "spec.scheduling.tokenDelay" in found.message


def test_objectives_are_not_measured_and_say_so() -> None:
    asked = facts(tenants=[{"name": "g", "objectives": {"ttft": {"p99": "1s"}}}])
    assert judge.objectives_met(asked)[:2] == (U, Reason.NOT_MEASURED)
    assert judge.objectives_met(facts())[:2] == (T, Reason.NO_OBJECTIVES)


def test_every_condition_has_a_verdict_and_every_message_says_something() -> None:
    assert set(VERDICTS) == set(ConditionType)
    for verdict in VERDICTS.values():
        assert verdict(facts()).message
