"""What the engines say, read from metrics pages over real HTTP."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tenantry_operator.engines import STALE_SECONDS, Engine, Engines, read
from tenantry_operator.workqueue import Key

KEY = Key("llm", "chat")
ENFORCE = 'tenantry_engine_active{policy="chat",reason="Enforce"} 1\n'
INFO = 'tenantry_policy_info{policy="chat",hash="abc",mode="Enforce"} 1\n'


@pytest.mark.parametrize(
    ("page", "engine"),
    [
        pytest.param(ENFORCE + INFO, Engine(True, "Enforce", "abc"), id="ours decides"),
        pytest.param(
            'tenantry_engine_active{policy="chat",reason="SeamMissing"} 0\n',
            Engine(False, "SeamMissing", ""),
            id="fallen back",
        ),
        pytest.param(
            'tenantry_engine_active{policy="chat",reason="SeamMissing"} 0\n' + ENFORCE,
            Engine(True, "Enforce", ""),
            id="the series at 1 counts",
        ),
        pytest.param("vllm_requests 3\n", Engine(), id="another page"),
        pytest.param("", Engine(), id="an empty page"),
    ],
)
def test_a_page_is_read(page: str, engine: Engine) -> None:
    assert read(page) == engine


class Stub:
    """An engine's metrics port: answers with `page`, or with an error when it is None."""

    page: str | None = ENFORCE + INFO
    now = 0.0

    def clock(self) -> float:
        return self.now

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.page) if self.page is not None else web.Response(status=500)


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
async def engines(stub: Stub) -> AsyncIterator[Engines]:
    app = web.Application()
    app.router.add_get("/metrics", stub.metrics)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        assert server.port
        found = Engines(session, stub.clock, server.port)
        found.watch(KEY, {"pod-1": "127.0.0.1"})
        yield found


async def test_a_change_is_told_once(engines: Engines, stub: Stub) -> None:
    assert await engines.scrape() == {KEY}
    assert await engines.scrape() == set()
    stub.page = ENFORCE + INFO.replace("abc", "def")
    assert await engines.scrape() == {KEY}
    assert engines.of(KEY) == {"pod-1": Engine(True, "Enforce", "def")}


async def test_a_short_silence_is_forgiven_and_a_long_one_is_not(
    engines: Engines, stub: Stub
) -> None:
    await engines.scrape()
    stub.page = None
    stub.now = STALE_SECONDS
    assert await engines.scrape() == set()
    assert engines.of(KEY)["pod-1"].active is True
    stub.now = STALE_SECONDS + 1
    assert await engines.scrape() == {KEY}
    assert engines.of(KEY)["pod-1"] == Engine()
    assert await engines.scrape() == set()


async def test_an_engine_that_never_answers_is_known_to_be_silent_after_a_while(
    engines: Engines, stub: Stub
) -> None:
    stub.page = 'tenantry_engine_active{policy="chat 1\n'
    assert await engines.scrape() == set()
    assert engines.of(KEY) == {}
    stub.now = STALE_SECONDS + 1
    assert await engines.scrape() == {KEY}
    assert engines.of(KEY) == {"pod-1": Engine()}


async def test_a_pod_or_a_policy_that_is_gone_is_forgotten(engines: Engines) -> None:
    await engines.scrape()
    engines.watch(KEY, {"pod-2": "127.0.0.1"})
    assert engines.of(KEY) == {}
    engines.forget(KEY)
    assert await engines.scrape() == set()
