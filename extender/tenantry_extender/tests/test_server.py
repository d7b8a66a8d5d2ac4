import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tenantry_core.placement import TEXTS, Misfit
from tenantry_extender import server
from tenantry_extender.books import Books
from tenantry_extender.metrics import ExtenderMetrics
from tenantry_extender.server import Verbs
from tenantry_extender.snapshot import Snapshot
from tenantry_extender.tests.builders import a_node, a_pod, a_question, two_policies
from tenantry_extender.tests.test_verbs import FakeApi

Client = TestClient[Any, Any]


class Clock:
    now = 1.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def books() -> Books:
    return two_policies()


@pytest.fixture
async def verbs(books: Books, clock: Clock) -> AsyncIterator[Client]:
    metrics = ExtenderMetrics(books, clock)
    async with TestClient(TestServer(Verbs(books, FakeApi(), metrics, clock).app())) as client:
        client.metrics = metrics  # type: ignore[attr-defined]
        yield client


@pytest.fixture
async def observers(books: Books, clock: Clock) -> AsyncIterator[Client]:
    app = server.observers(books, ExtenderMetrics(books, clock), clock)
    async with TestClient(TestServer(app)) as client:
        yield client


async def post(client: Client, verb: str, body: object) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.post(f"/tenantry/{verb}", data=data) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        return await response.json()


def counted(client: Client, name: str, **labels: str) -> float | None:
    return client.metrics.registry.get_sample_value(name, labels)  # type: ignore[attr-defined, no-any-return]


async def test_a_pod_goes_through_all_verbs(verbs: Client) -> None:
    question = a_question(a_pod("a-0", "a"))
    assert await post(verbs, "filter", question) == {
        "Nodes": None,
        "NodeNames": ["gpu-0"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert await post(verbs, "prioritize", question) == [{"Host": "gpu-0", "Score": 2}]
    binding = {"PodName": "a-0", "PodNamespace": "llm", "PodUID": "uid-a-0", "Node": "gpu-0"}
    assert await post(verbs, "bind", binding) == {"Error": ""}
    for verb, reason in (("filter", "accepted"), ("prioritize", "scored"), ("bind", "bound")):
        assert counted(verbs, "tenantry_extender_decisions_total", verb=verb, reason=reason) == 1
        name = "tenantry_extender_request_seconds_count"
        assert counted(verbs, name, verb=verb, outcome="ok") == 1


async def test_a_refusal_is_no_error(verbs: Client, books: Books) -> None:
    for name in ("a-0", "a-1"):
        books.hold(books.snapshot.pods[f"uid-{name}"], "gpu-0", 0.0)
    reply = await post(verbs, "filter", a_question(a_pod("a-2", "a")))
    assert reply["FailedNodes"] == {"gpu-0": TEXTS[Misfit.OVER_SHARE]}
    assert (reply["NodeNames"], reply["Error"]) == ([], "")


async def test_whole_nodes_are_answered_with_nodes(verbs: Client) -> None:
    question = {"Pod": a_pod("a-0", "a"), "Nodes": {"items": [a_node()]}, "NodeNames": None}
    reply = await post(verbs, "filter", question)
    assert [item["metadata"]["name"] for item in reply["Nodes"]["items"]] == ["gpu-0"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"Pod": null}'], ids=repr)
async def test_a_malformed_question_is_answered_with_an_error(verbs: Client, body: bytes) -> None:
    for verb in ("filter", "bind"):
        reply = await post(verbs, verb, body)
        assert reply["Error"].startswith("tenantry: malformed request: ")
    assert await post(verbs, "prioritize", body) == []
    name = "tenantry_extender_decisions_total"
    assert counted(verbs, name, verb="filter", reason="malformed") == 1


async def test_a_pod_that_cannot_be_read_is_our_error_and_logged(
    verbs: Client, caplog: pytest.LogCaptureFixture
) -> None:
    pod = a_pod("a-0", "a", resources={"nvidia.com/gpu": "many"})
    reply = await post(verbs, "filter", a_question(pod))
    assert reply["Error"] == "tenantry: internal error, see the extender's log"
    assert "filter failed on" in caplog.text


async def test_before_the_books_are_complete_nothing_is_decided(clock: Clock) -> None:
    books = Books(Snapshot(frozenset()), 30.0)
    app = Verbs(books, FakeApi(), ExtenderMetrics(books, clock), clock).app()
    async with TestClient(TestServer(app)) as client:
        reply = await post(client, "filter", a_question(a_pod("a-0", "a")))
    assert "the books are not complete yet, nodes, pods" in reply["Error"]


async def test_on_old_books_nothing_is_decided(verbs: Client, clock: Clock) -> None:
    clock.now = server.STALE_SECONDS + 1
    binding = {"PodName": "a-0", "PodNamespace": "llm", "PodUID": "uid-a-0", "Node": "gpu-0"}
    assert "too old" in (await post(verbs, "bind", binding))["Error"]


async def test_ready_means_complete_and_fresh_books(observers: Client, clock: Clock) -> None:
    async def status(path: str) -> int:
        async with observers.get(path) as response:
            return response.status

    assert (await status("/healthz"), await status("/readyz")) == (200, 200)
    clock.now = server.STALE_SECONDS + 1
    assert (await status("/healthz"), await status("/readyz")) == (200, 503)


async def test_metrics_are_served_as_text(observers: Client) -> None:
    async with observers.get("/metrics") as response:
        text = await response.text()
    assert 'tenantry_slices{namespace="llm",policy="a",state="entitled"} 2.0' in text
    assert 'tenantry_build_info{component="extender"' in text
