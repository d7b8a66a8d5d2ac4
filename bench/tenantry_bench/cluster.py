"""Finding a Service's address in the cluster that the kubeconfig, or the pod, names."""

from __future__ import annotations

import json
import re
from typing import Any

import aiohttp
import yaml
from kubernetes.aio import client, config

from tenantry_bench.errors import BadInputError, UnavailableError

ARGUMENT = r"([a-z0-9.-]+/)?[a-z0-9.-]+"
PORT_NAME = "http"
REQUEST_SECONDS = 30.0
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)
"""What the client raises for a kubeconfig that is none."""


async def service_url(argument: str) -> str:
    """Return the URL of `[NAMESPACE/]NAME` by its cluster address, which only answers inside.

    Raises BadInputError for a Service that does not exist or has no address, and UnavailableError
    when the API server cannot be asked.
    """
    if re.fullmatch(ARGUMENT, argument) is None:
        raise BadInputError(
            f"--service {argument!r} is not a Service: write NAME or NAMESPACE/NAME"
        )
    namespace, _, name = argument.rpartition("/")
    try:
        default = await _connect()
        service = await _read(namespace or default, name, argument)
    except config.ConfigException as error:
        raise UnavailableError(f"no cluster: {error}; set KUBECONFIG or pass --url") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise UnavailableError(f"the API server cannot be asked: {error}") from error
    return url_of(service, argument)


def url_of(service: dict[str, Any], argument: str) -> str:
    """Return the URL of a Service object: its port named http, or its only port."""
    spec = service.get("spec") or {}
    address = spec.get("clusterIP")
    if not address or address == "None":
        raise BadInputError(f"--service {argument}: it has no cluster address; pass --url instead")
    ports = spec.get("ports") or []
    named = [port for port in ports if port.get("name") == PORT_NAME]
    if not named and len(ports) != 1:
        raise BadInputError(f"--service {argument}: no port named {PORT_NAME}; pass --url instead")
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{(named or ports)[0]['port']}"


async def _connect() -> str:
    """Configure the client, as a pod or by the kubeconfig, and return the namespace to use."""
    try:
        config.load_incluster_config()
    except config.ConfigException:
        return await _kubeconfig()
    return "default"


async def _kubeconfig() -> str:
    try:
        await config.load_kube_config()
        _, active = config.list_kube_config_contexts()
        return str(active["context"].get("namespace") or "default")
    except UNREADABLE as error:
        raise config.ConfigException(f"the kubeconfig cannot be read: {error}") from error


async def _read(namespace: str, name: str, argument: str) -> dict[str, Any]:
    async with client.ApiClient() as api:
        ask = client.CoreV1Api(api).read_namespaced_service_without_preload_content
        answer = await ask(name, namespace, _request_timeout=REQUEST_SECONDS)
        text = await answer.read()
    if answer.status == 404:
        raise BadInputError(
            f"--service {argument}: namespace {namespace} has no such Service; "
            "name another as NAMESPACE/NAME"
        )
    if answer.status != 200:
        said = text[:200].decode(errors="replace")
        raise UnavailableError(f"--service {argument}: the API server answers {said}")
    body: dict[str, Any] = json.loads(text)
    return body
