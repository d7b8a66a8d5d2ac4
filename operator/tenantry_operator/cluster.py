"""The Kubernetes API: read, apply, report. The only module with the kubernetes client.

Manifests stay dicts on the way in and out. Every failure is an `ApiError`; what it means is the
caller's business.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient

from tenantry_api import names

log = logging.getLogger(__name__)

Manifest = dict[str, Any]

REQUEST_SECONDS = 30.0


class ApiError(Exception):
    """The API server refused or was not there (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def permanent(self) -> bool:
        """Whether asking again with the same object would get the same answer."""
        return self.status in {400, 403, 422}


@dataclass(frozen=True)
class Kind:
    """A kind of object: what it is called in a manifest and in a path."""

    api_version: str
    kind: str
    plural: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object, or of a part of it."""
        root = "/api/" if "/" not in self.api_version else "/apis/"
        parts = [f"{root}{self.api_version}", "namespaces", namespace, self.plural, name]
        return "/".join(quote(part, safe="/") for part in [*parts, subresource] if part)


POLICY = Kind(names.API_VERSION, names.KIND, names.PLURAL)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
SERVICE = Kind("v1", "Service", "services")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("v1", "Event", "events")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
CHILDREN = (CONFIG_MAP, SERVICE, DEPLOYMENT)

_OWNED = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


# What the client raises for a kubeconfig that is none.
UNREADABLE = (OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)


class Cluster:
    """One connection to the API server; an asynchronous context manager."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @classmethod
    async def connect(cls) -> Self:
        """By the service account inside a pod, else by the kubeconfig that KUBECONFIG names.

        Raises `ApiError` where there is neither.
        """
        try:
            config.load_incluster_config()
        except config.ConfigException:
            try:
                await config.load_kube_config()
            except (config.ConfigException, *UNREADABLE) as error:
                said = " ".join(str(error).split())
                message = f"no service account, and no kubeconfig to use: {said}; set KUBECONFIG"
                raise ApiError(0, "NoCredentials", message) from error
        api = ApiClient()
        api.user_agent = names.FIELD_MANAGER
        return cls(api)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.close()

    async def serves_policies(self) -> bool:
        """Whether the API server knows the resource and answers for it.

        Just after its definition came, the resource is listed in the discovery already but reads
        of it are answered with status 429.
        """
        try:
            found = await self._call("GET", f"/apis/{names.API_VERSION}")
            await self._call("GET", f"/apis/{names.API_VERSION}/{names.PLURAL}", {"limit": "1"})
        except ApiError as error:
            if error.status in {404, 429}:
                return False
            raise
        return any(item["name"] == names.PLURAL for item in found.get("resources", []))

    async def namespace_ends(self, name: str) -> bool:
        """Whether the namespace is being deleted or gone: nothing can be made in it any more."""
        try:
            found = await self._call("GET", f"/api/v1/namespaces/{quote(name)}")
        except ApiError as error:
            if error.status == 404:
                return True
            raise
        return "deletionTimestamp" in found["metadata"]

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object, or None where there is none."""
        try:
            return await self._call("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def pods(self, namespace: str, policy: str) -> list[Manifest]:
        """Every pod in `namespace` that carries the policy's label."""
        query = {"labelSelector": f"{names.LABEL_POLICY}={policy}"}
        found = await self._call("GET", POD.path(namespace), query)
        return list(found.get("items", []))

    async def apply(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        """Server-side apply of all that `manifest` says; returns the object as it is now."""
        meta = manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"], subresource)
        return await self._call("PATCH", path, _OWNED, manifest, _APPLY)

    async def annotate_pod(self, namespace: str, name: str, notes: Mapping[str, str]) -> None:
        """Set annotations of a running pod; a pod that is gone is no error."""
        body = {"metadata": {"annotations": dict(notes)}}
        query = {"fieldManager": names.FIELD_MANAGER}
        try:
            await self._call("PATCH", POD.path(namespace, name), query, body, _MERGE)
        except ApiError as error:
            if error.status != 404:
                raise

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create an object that must not exist yet (status 409 if it does)."""
        path = kind.path(manifest["metadata"]["namespace"])
        query = {"fieldManager": names.FIELD_MANAGER}
        return await self._call("POST", path, query, manifest)

    async def post_event(self, manifest: Manifest) -> None:
        """Post an Event; one that cannot be posted is logged and no error: the status has it."""
        try:
            await self.create(EVENT, manifest)
        except ApiError as error:
            log.warning("event not posted: %s", error.message)

    async def replace(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Replace an object; its resourceVersion must be the newest (status 409 if not)."""
        meta = manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        query = {"fieldManager": names.FIELD_MANAGER}
        return await self._call("PUT", path, query, manifest)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = "application/json",
    ) -> Manifest:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        request = await self._api.param_serialize(
            method=method, resource_path=path, header_params=headers, auth_settings=["BearerToken"]
        )
        url = request[1] + (f"?{urlencode(query)}" if query else "")
        try:
            answer = await self._api.call_api(
                method, url, request[2], body, _request_timeout=REQUEST_SECONDS
            )
            data = await answer.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            text = (
                f"the API server does not answer {method} {path}: {error or type(error).__name__}"
            )
            raise ApiError(0, "Unreachable", text) from error
        return _read(answer.status, data)


def _read(status: int, data: bytes) -> Manifest:
    try:
        found: Manifest = json.loads(data)
    except ValueError:
        found = {"message": data.decode(errors="replace")[:200]}
    if status >= 400:
        raise ApiError(status, str(found.get("reason", "")), str(found.get("message", "")))
    return found
