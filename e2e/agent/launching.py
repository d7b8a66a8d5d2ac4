"""From a container's manifest to everything its process needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.agent import environment, images
from e2e.agent.api import ApiError
from e2e.agent.container import Launch
from e2e.agent.volumes import binds

if TYPE_CHECKING:
    from e2e.agent.config import AgentConfig
    from e2e.agent.context import PodContext
    from e2e.agent.images import Image

Object = dict[str, Any]
_PATHS = {"ConfigMap": "configmaps", "Secret": "secrets"}
DEVICES = "NVIDIA_VISIBLE_DEVICES"


class ImageMissingError(RuntimeError):
    """No entry of the image map matches."""


class ForbiddenError(RuntimeError):
    """The security context refuses the image (kubelet: CreateContainerConfigError)."""


async def prepare(context: PodContext, container: Object, base: Path) -> Launch:
    """What to start for `container`, built in the folder `base`.

    Raises ImageMissingError, MissingValueError, VolumeError or ForbiddenError with the reason.
    """
    image = images.find(context.shared.images, container["image"])
    if image is None:
        raise ImageMissingError(
            f'Container image "{container["image"]}" is not in the image map, e2e/images.yaml, '
            "and nothing is pulled"
        )
    objects = await _objects(context, container)
    values = _environment(context, container, image, objects)
    uid, gid = _identity(context.pod, container, image)
    argv = image.argv(
        [environment.expand(word, values) for word in container.get("command", [])],
        [environment.expand(word, values) for word in container.get("args", [])],
    )
    if not argv:
        raise ForbiddenError("no command specified")
    config = context.shared.config
    security = container.get("securityContext", {})
    dropped = security.get("capabilities", {}).get("drop", [])
    return Launch(
        base=str(base),
        network=context.network.path if context.network else "",
        hostname=context.pod["metadata"]["name"],
        uid=uid,
        gid=gid,
        argv=argv,
        environment=values,
        directory=container.get("workingDir") or image.directory,
        binds=[
            *_own_files(context),
            *_image_binds(image),
            *binds(container, context.volumes, values),
        ],
        masks=[str(path) for path in masks(config)],
        needed=[str(path) for path in needed(config)],
        readonly=bool(security.get("readOnlyRootFilesystem")),
        drop_all="ALL" in dropped,
        no_new_privileges=security.get("allowPrivilegeEscalation") is False or uid != 0,
        read_all=not config.rootless and _someone_elses(config),
    )


def masks(config: AgentConfig) -> list[Path]:
    """What no pod may see: every cluster's run directory and kubeconfigs of the user."""
    return [config.run_dir.parent, config.run_dir, Path.home() / ".kube", *config.masks]


def needed(config: AgentConfig) -> list[Path]:
    """What programs are made of: environment, interpreter, checkout, binaries, models."""
    interpreter = (config.venv / "bin" / "python").resolve().parents[1]
    found = [interpreter, config.venv, config.checkout, config.bin_dir, config.models]
    return [path for path in dict.fromkeys(found) if path.exists() and path != Path("/usr")]


def _someone_elses(config: AgentConfig) -> bool:
    return any(path.stat().st_uid != 0 for path in needed(config))


def _identity(pod: Object, container: Object, image: Image) -> tuple[int, int]:
    common, own = pod["spec"].get("securityContext", {}), container.get("securityContext", {})
    settings = {**common, **own}
    uid = int(settings.get("runAsUser", image.user))
    gid = int(settings.get("runAsGroup", 0 if "runAsUser" in settings else image.user))
    if settings.get("runAsNonRoot") and uid == 0:
        raise ForbiddenError("container has runAsNonRoot and image will run as root")
    return uid, gid


async def _objects(context: PodContext, container: Object) -> dict[tuple[str, str], Object]:
    found = {}
    namespace = context.pod["metadata"]["namespace"]
    for kind, name in sorted(environment.references(container)):
        try:
            path = f"/api/v1/namespaces/{namespace}/{_PATHS[kind]}/{name}"
            found[(kind, name)] = await context.shared.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise environment.MissingValueError(str(error)) from error
    return found


def _environment(
    context: PodContext,
    container: Object,
    image: Image,
    objects: dict[tuple[str, str], Object],
) -> dict[str, str]:
    spec, meta = context.pod["spec"], context.pod["metadata"]
    base = {"HOSTNAME": meta["name"], "HOME": "/"} | image.environment()
    base |= environment.service_links(
        context.shared.routing.services(),
        meta["namespace"],
        all_of_it=spec.get("enableServiceLinks", True),
    )
    if context.devices and _wants_devices(container):
        base[DEVICES] = context.devices
    return environment.build(container, context.sources(objects), base)


def _wants_devices(container: Object) -> bool:
    resources = container.get("resources", {})
    names = {*resources.get("limits", {}), *resources.get("requests", {})}
    return any(name.startswith("nvidia.com/") for name in names)


def _own_files(context: PodContext) -> list[tuple[str, str, bool]]:
    """Names of the pod's network: hosts, an empty resolver configuration."""
    resolver = context.folder / "resolv.conf"
    if not resolver.exists():
        resolver.write_text("", encoding="ascii")
    return [
        (str(context.hosts), "/etc/hosts", False),
        (str(resolver), "/etc/resolv.conf", False),
    ]


def _image_binds(image: Image) -> list[tuple[str, str, bool]]:
    return [(source, target, True) for source, target in image.binds.items()]
