"""A Service is found through the API, or it is said why not."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import yaml
from aiohttp import web

from tenantry_bench.cluster import service_url, url_of
from tenantry_bench.errors import BadInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HTTP, METRICS = {"name": "http", "port": 8000}, {"name": "metrics", "port": 8001}
CHAT = {"spec": {"clusterIP": "10.0.0.7", "ports": [METRICS, HTTP]}}


@asynccontextmanager
async def api_server(folder: Path, status: int = 200) -> AsyncIterator[Path]:
    """Serve one Service, `llm/chat`, and yield the kubeconfig."""

    async def handler(request: web.Request) -> web.Response:
        found = request.path == "/api/v1/namespaces/llm/services/chat"
        return web.json_response(CHAT if found else {}, status=status if found else 404)

    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield kubeconfig(folder, f"http://{host}:{port}")
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, server: str) -> Path:
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [
            {"name": "x", "context": {"cluster": "x", "user": "x", "namespace": "llm"}},
        ],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(body))
    return path


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Have the client read the test's kubeconfig."""
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION",
        str(tmp_path / "kubeconfig"),
    )
    return monkeypatch


@pytest.mark.usefixtures("use")
@pytest.mark.parametrize("argument", ["chat", "llm/chat"], ids=["of the context", "named"])
async def test_a_service_is_found_in_its_namespace(argument: str, tmp_path: Path) -> None:
    async with api_server(tmp_path):
        assert await service_url(argument) == "http://10.0.0.7:8000"


@pytest.mark.usefixtures("use")
async def test_a_service_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    async with api_server(tmp_path):
        with pytest.raises(BadInputError, match="namespace other has no such Service"):
            await service_url("other/chat")


@pytest.mark.usefixtures("use")
async def test_an_api_server_that_refuses_is_said(tmp_path: Path) -> None:
    async with api_server(tmp_path, status=403):
        with pytest.raises(UnavailableError, match="llm/chat"):
            await service_url("llm/chat")


@pytest.mark.usefixtures("use")
async def test_an_api_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    kubeconfig(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match="cannot be asked"):
        await service_url("llm/chat")


@pytest.mark.usefixtures("use")
async def test_without_a_cluster_the_way_out_is_named() -> None:
    with pytest.raises(UnavailableError, match="pass --url"):
        await service_url("llm/chat")


@pytest.mark.parametrize("argument", ["", "a/b/c", "/", "a b"])
async def test_what_names_no_service_is_bad_input(argument: str) -> None:
    with pytest.raises(BadInputError, match="NAME"):
        await service_url(argument)


@pytest.mark.usefixtures("use")
@pytest.mark.parametrize("junk", [b"junk", b"", b"[", b"\xff", b"contexts: 5"], ids=str)
async def test_a_kubeconfig_that_is_none_is_said(junk: bytes, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_bytes(junk)
    with pytest.raises(UnavailableError, match="no cluster"):
        await service_url("llm/chat")


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ({"clusterIP": "10.0.0.7", "ports": [METRICS, HTTP]}, "http://10.0.0.7:8000"),
        ({"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}, "http://10.0.0.7:80"),
        ({"clusterIP": "fd00::7", "ports": [HTTP]}, "http://[fd00::7]:8000"),
    ],
)
def test_a_service_is_reached_at_its_port_named_http_or_its_only_one(
    spec: dict[str, object], url: str
) -> None:
    assert url_of({"spec": spec}, "chat") == url


@pytest.mark.parametrize(
    "spec",
    [{}, {"clusterIP": "None", "ports": [HTTP]}, {"clusterIP": "10.0.0.7", "ports": [METRICS] * 2}],
    ids=["empty", "headless", "no port named http"],
)
def test_a_service_without_an_address_to_use_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match="chat"):
        url_of({"spec": spec}, "chat")
