"""Who leads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenantry_operator.lease import DURATION, Candidate, Move, decide, released, written

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME = Candidate("here", "me")


def _lease(holder: str, age: timedelta) -> dict[str, Any]:
    return written(None, Candidate("here", holder), NOW - age)


@pytest.mark.parametrize(
    ("lease", "move"),
    [
        pytest.param(None, Move.CREATE, id="there is none"),
        pytest.param(_lease("me", timedelta(hours=1)), Move.RENEW, id="mine, however old"),
        pytest.param(_lease("you", timedelta(0)), Move.WAIT, id="another's and fresh"),
        pytest.param(_lease("you", DURATION), Move.WAIT, id="another's to the last moment"),
        pytest.param(
            _lease("you", DURATION + timedelta(seconds=1)), Move.TAKE, id="another's, run out"
        ),
        pytest.param(released(_lease("you", timedelta(0))), Move.TAKE, id="given away"),
        pytest.param({"spec": {}}, Move.TAKE, id="empty"),
    ],
)
def test_the_move_of_a_candidate(lease: dict[str, Any] | None, move: Move) -> None:
    assert decide(lease, "me", NOW) is move


def test_taking_counts_and_renewing_does_not() -> None:
    taken = written(_lease("you", DURATION), ME, NOW)
    renewed = written(taken, ME, NOW + timedelta(seconds=5))
    assert taken["spec"]["leaseTransitions"] == 1
    assert renewed["spec"]["leaseTransitions"] == 1
    assert renewed["spec"]["acquireTime"] == taken["spec"]["acquireTime"]
    assert renewed["spec"]["renewTime"] > taken["spec"]["renewTime"]


def test_a_lease_is_replaced_at_the_version_that_was_read() -> None:
    lease = _lease("you", DURATION)
    lease["metadata"]["resourceVersion"] = "7"
    assert written(lease, ME, NOW)["metadata"]["resourceVersion"] == "7"
