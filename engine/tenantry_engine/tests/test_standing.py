"""Who is here, and how: recounted where somebody has moved, and only there."""

from dataclasses import dataclass
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@dataclass(frozen=True)
class Request:
    """What a queue and a census look at: a decode with 100 tokens."""

    request_id: str
    tenant: str
    arrival_time: float = 0.0
    is_prefill_chunk: bool = False
    num_computed_tokens: int = 100


def test_a_tenant_is_put_back_while_it_waits_and_its_decodes_take_more_than_their_part(
    harness: Any,
) -> None:
    standing, census, queue = harness.standing(lambda _, decodes: 0.25 * (decodes - 1))
    waiting = [Request("a3", "a"), Request("b2", "b")]
    for request in waiting:
        queue.add_request(request)
    census.take([Request("a1", "a"), Request("a2", "a"), Request("b1", "b")])
    assert standing.later() == {"a": 0.25}
    queue.remove_request(waiting[0])
    assert standing.later() == {}


def test_who_has_not_moved_is_not_asked_again(harness: Any) -> None:
    asked: list[str] = []

    def excess(tenant: str, _decodes: int) -> float:
        asked.append(tenant)
        return 0.0

    standing, census, queue = harness.standing(excess)
    queue.add_request(Request("a2", "a"))
    queue.add_request(Request("b2", "b"))
    census.take([Request("a1", "a"), Request("b1", "b")])
    standing.later()
    asked.clear()
    queue.add_request(Request("b3", "b"))
    standing.later()
    assert asked == ["b"]
