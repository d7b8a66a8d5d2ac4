"""A pod's volumes: directories of the pod's folder, filled and refreshed as a kubelet does it.

ConfigMaps, Secrets, projected volumes: real files lie in a dated directory, `..data` links to
it, the visible names link through `..data`, and a new version is one rename of that link.
"""

from __future__ import annotations

import base64
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from e2e.agent import syscalls
from e2e.agent.api import Api, ApiError
from e2e.agent.environment import expand, field_value, resource_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from e2e.agent.environment import Sources

Object = dict[str, Any]
Files = dict[str, tuple[bytes, int]]  # path -> content, mode
_PATHS = {"ConfigMap": "configmaps", "Secret": "secrets"}


# A tmpfs of the agent's own: a mount inside the checkout would cost every container an overlay.
MEMORY = Path("/dev/shm")  # noqa: S108


def own_memory() -> None:
    """Put a fresh tmpfs where volumes of medium Memory lie, for this mount namespace only."""
    syscalls.mount("tmpfs", str(MEMORY), "tmpfs", data="mode=1777")


class VolumeError(RuntimeError):
    """A volume cannot be set up (now); the text is for the pod's event."""


class Token(NamedTuple):
    """A service account token and when to ask for the next one (epoch seconds)."""

    text: str
    renew_at: float


def selected(kind: str, item: Object, source: Object, default_mode: int) -> Files:
    """The files of a ConfigMap or Secret: all its keys, or those that `items` names.

    Raises VolumeError for a named key that is missing, unless the source is optional.
    """
    content = {name: base64.b64decode(value) for name, value in _binary(kind, item).items()}
    if kind == "ConfigMap":
        content |= {name: str(value).encode() for name, value in (item.get("data") or {}).items()}
    if not source.get("items"):
        return {name: (data, default_mode) for name, data in content.items()}
    found: Files = {}
    for entry in source["items"]:
        if entry["key"] in content:
            found[entry["path"]] = (content[entry["key"]], entry.get("mode", default_mode))
        elif not source.get("optional"):
            name = item["metadata"]["name"]
            raise VolumeError(f"{kind.lower()} {name} references non-existent key: {entry['key']}")
    return found


def _binary(kind: str, item: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = item.get("binaryData" if kind == "ConfigMap" else "data") or {}
    return found


def downward(items: list[Object], sources: Sources, default_mode: int) -> Files:
    """The files of a downward API volume."""
    found: Files = {}
    by_name = {each["name"]: each for each in sources.pod["spec"]["containers"]}
    for entry in items:
        if "fieldRef" in entry:
            text = field_value(entry["fieldRef"]["fieldPath"], sources)
        else:
            reference = entry["resourceFieldRef"]
            text = resource_value(reference, by_name[reference["containerName"]])
        found[entry["path"]] = (text.encode(), entry.get("mode", default_mode))
    return found


def write_atomically(folder: Path, files: Files) -> bool:
    """Show `files` in `folder`, all at once; whether anything changed."""
    link = folder / "..data"
    if link.is_symlink() and _content(link) == files:
        return False
    name = time.strftime("..%Y_%m_%d_%H_%M_%S.") + f"{time.monotonic_ns():x}"
    fresh = folder / name
    fresh.mkdir(parents=True)
    for path, (data, mode) in files.items():
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
    former = link.resolve() if link.is_symlink() else None
    swap = folder / "..data_tmp"
    swap.symlink_to(name)
    swap.rename(link)
    _visible(folder, {path.split("/")[0] for path in files})
    if former is not None:
        shutil.rmtree(former, ignore_errors=True)
    return True


def _visible(folder: Path, tops: set[str]) -> None:
    for name in tops:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()


def _content(link: Path) -> Files:
    root = link.resolve()
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in root.rglob("*")
        if path.is_file()
    }


class Volumes:
    """The volumes of one pod. `setup` makes them, `refresh` brings the changing ones up to date."""

    def __init__(self, api: Api, folder: Path, pod: Object) -> None:
        self._api = api
        self._folder = folder
        self._pod = pod
        self._tokens: dict[tuple[str, str], Token] = {}
        self._memory = MEMORY / folder.parent.name

    def path(self, name: str) -> Path:
        """Where a volume's content lies."""
        return self._folder / name

    async def setup(self, sources: Sources) -> None:
        """Make every volume; raises VolumeError for the first that cannot be."""
        for volume in self._pod["spec"].get("volumes", []):
            folder = self.path(volume["name"])
            if "emptyDir" in volume:
                self._empty(folder, volume["emptyDir"])
                continue
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder, await self._files(volume, sources))

    async def refresh(self, sources: Sources) -> None:
        """Write what has changed at its source; raises VolumeError, the old content stays."""
        for volume in self._pod["spec"].get("volumes", []):
            if "emptyDir" not in volume:
                files = await self._files(volume, sources)
                write_atomically(self.path(volume["name"]), files)

    def remove(self) -> None:
        """Take everything away."""
        shutil.rmtree(self._memory, ignore_errors=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _empty(self, folder: Path, source: Object) -> None:
        if folder.exists():
            return
        place = folder
        if source.get("medium") == "Memory":
            place = self._memory / folder.name
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.symlink_to(place)
        place.mkdir(parents=True)
        place.chmod(0o777)

    async def _files(self, volume: Object, sources: Sources) -> Files:
        if "configMap" in volume:
            source = volume["configMap"]
            return await self._keys("ConfigMap", source, source.get("defaultMode", 0o644))
        if "secret" in volume:
            source = {"name": volume["secret"]["secretName"], **volume["secret"]}
            return await self._keys("Secret", source, source.get("defaultMode", 0o644))
        if "downwardAPI" in volume:
            source = volume["downwardAPI"]
            return downward(source.get("items", []), sources, source.get("defaultMode", 0o644))
        if "projected" in volume:
            return await self._projected(volume["projected"], sources)
        kinds = sorted(set(volume) - {"name"})
        raise VolumeError(f"volume {volume['name']}: the node agent does not offer {kinds}")

    async def _projected(self, projected: Object, sources: Sources) -> Files:
        mode = projected.get("defaultMode", 0o644)
        found: Files = {}
        for source in projected.get("sources", []):
            if "serviceAccountToken" in source:
                wanted = source["serviceAccountToken"]
                found[wanted["path"]] = ((await self._token(wanted)).encode(), mode)
            elif "configMap" in source:
                found |= await self._keys("ConfigMap", source["configMap"], mode)
            elif "secret" in source:
                found |= await self._keys("Secret", source["secret"], mode)
            elif "downwardAPI" in source:
                found |= downward(source["downwardAPI"].get("items", []), sources, mode)
        return found

    async def _keys(self, kind: str, source: Object, mode: int) -> Files:
        namespace = self._pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/{_PATHS[kind]}/{source['name']}"
        try:
            item = await self._api.get(path)
        except ApiError as error:
            if error.status == 404 and source.get("optional"):
                return {}
            raise VolumeError(f'{kind.lower()} "{source["name"]}": {error}') from error
        return selected(kind, item, source, mode)

    async def _token(self, wanted: Object) -> str:
        key = (wanted.get("audience", ""), wanted["path"])
        known = self._tokens.get(key)
        if known is not None and time.time() < known.renew_at:
            return known.text
        meta, spec = self._pod["metadata"], self._pod["spec"]
        seconds = int(wanted.get("expirationSeconds") or 3600)
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        request: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "boundObjectRef": bound},
        }
        if wanted.get("audience"):
            request["spec"]["audiences"] = [wanted["audience"]]
        account = spec.get("serviceAccountName", "default")
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
        try:
            answer = await self._api.post(path, request)
        except ApiError as error:
            raise VolumeError(f"token of service account {account}: {error}") from error
        token = Token(answer["status"]["token"], time.time() + 0.8 * seconds)
        self._tokens[key] = token
        return token.text


def binds(
    container: Object, volumes: Volumes, environment: Mapping[str, str]
) -> list[tuple[str, str, bool]]:
    """(source, target, read-only) of a container's `volumeMounts`; a subPath is made if absent."""
    found = []
    for mount in container.get("volumeMounts", []):
        source = volumes.path(mount["name"])
        sub = mount.get("subPath") or expand(mount.get("subPathExpr", ""), environment)
        if sub:
            source = Path(os.path.normpath(source / sub))
            if not source.is_relative_to(volumes.path(mount["name"])):
                raise VolumeError(f"subPath {sub} leads out of the volume {mount['name']}")
            if not source.exists():
                source.mkdir(parents=True)
        found.append((str(source), str(mount["mountPath"]), bool(mount.get("readOnly"))))
    return found
