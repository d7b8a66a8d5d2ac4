import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenantry_extender import watch
from tenantry_extender.books import Books, Kind
from tenantry_extender.snapshot import Snapshot
from tenantry_extender.tests.builders import Body, a_node
from tenantry_extender.watch import Gone, Unreachable

Step = list[Mapping[str, Any]] | Exception


def an_event(kind: str, body: Body, version: str = "") -> Body:
    metadata = {**body.get("metadata", {}), "resourceVersion": version}
    return {"type": kind, "object": {**body, "metadata": metadata}}


@dataclass
class Script:
    """An API server that plays lists and watches in order, then stays silent."""

    lists: list[list[Body] | Exception]
    watches: list[Step]
    versions: list[str] = field(default_factory=list)

    async def list(self, kind: Kind) -> tuple[list[dict[str, Any]], str]:
        assert kind is Kind.NODES
        step = self.lists.pop(0)
        if isinstance(step, Exception):
            raise step
        return step, "1"

    async def watch(self, kind: Kind, version: str) -> AsyncIterator[Mapping[str, Any]]:
        assert kind is Kind.NODES
        self.versions.append(version)
        if not self.watches:
            await asyncio.Event().wait()
        step = self.watches.pop(0)
        if isinstance(step, Exception):
            raise step
        for event in step:
            yield event


async def play(script: Script, monkeypatch: pytest.MonkeyPatch) -> tuple[Books, list[float]]:
    """Follow nodes until the script is played; returns the books and the pauses made."""
    pauses: list[float] = []

    async def no_time(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("tenantry_extender.watch.asyncio.sleep", no_time)
    books = Books(Snapshot(frozenset()), 30.0)
    expected = len(script.watches) + 1
    real = asyncio.get_running_loop()
    task = asyncio.create_task(watch.follow(Kind.NODES, script, books, lambda: 5.0))
    deadline = real.time() + 5
    while len(script.versions) < expected and not task.done():
        assert real.time() < deadline
        turn = real.create_future()
        real.call_soon(turn.set_result, None)
        await turn
    task.cancel()
    return books, pauses


async def test_a_list_and_the_events_after_it_are_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(
        [[a_node("a"), a_node("b")]],
        [
            [
                {},
                an_event("ADDED", a_node("c"), "2"),
                an_event("MODIFIED", a_node("a", 2), "3"),
                an_event("DELETED", a_node("b"), "4"),
                {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
            ]
        ],
    )
    books, _ = await play(script, monkeypatch)
    assert sorted(books.snapshot.nodes) == ["a", "c"]
    assert books.snapshot.nodes["a"].allocatable["nvidia.com/gpu"] == 2
    assert script.versions == ["1", "9"]
    assert books.age(5.0) == 0.0


@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(Gone(), id="answered 410"),
        pytest.param([{"type": "ERROR", "object": {"code": 410}}], id="an event says so"),
    ],
)
async def test_a_forgotten_version_means_a_new_list(
    forgotten: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script([[a_node("old")], [a_node("new")]], [forgotten])
    books, _ = await play(script, monkeypatch)
    assert list(books.snapshot.nodes) == ["new"]
    assert script.versions == ["1", "1"]


async def test_an_api_server_that_is_away_is_asked_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = Unreachable("connection refused")
    error: Step = [{"type": "ERROR", "object": {"code": 500, "message": "etcd is ill"}}]
    script = Script([away, away, [a_node("a")]], [error, away, away, away])
    books, pauses = await play(script, monkeypatch)
    assert list(books.snapshot.nodes) == ["a"]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert "cannot follow nodes: connection refused" in caplog.text
    assert "etcd is ill" in caplog.text


async def test_a_stream_that_worked_makes_the_next_pause_short_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = Unreachable("x")
    script = Script([[a_node("a")]], [away, away, [{}], away])
    _, pauses = await play(script, monkeypatch)
    assert pauses == [0.2, 0.4, 0.2, 0.4]
