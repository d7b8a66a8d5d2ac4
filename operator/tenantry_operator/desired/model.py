"""Where the model comes from: the volume, the mount and the environment that it needs."""

from dataclasses import dataclass, field
from typing import Any

from tenantry_api import names
from tenantry_api.policy import Model, Source

VOLUME = "model"
TOKEN_KEY = "token"  # noqa: S105 - the key of the Secret, not a secret


@dataclass(frozen=True)
class Parts:
    """What a source adds to the pod."""

    env: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)


def parts(model: Model) -> Parts:
    """What the pod needs so that `model.location` can be loaded."""
    source = model.source or Source()
    if source.claim is not None:
        claim = {"claimName": source.claim.name, "readOnly": True}
        return _mounted({"name": VOLUME, "persistentVolumeClaim": claim})
    if source.image is not None:
        image = {"reference": source.image.reference, "pullPolicy": "IfNotPresent"}
        return _mounted({"name": VOLUME, "image": image})
    if source.hub is not None and source.hub.token_secret is not None:
        key = {"name": source.hub.token_secret, "key": TOKEN_KEY}
        return Parts(env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}}])
    return Parts()


def _mounted(volume: dict[str, Any]) -> Parts:
    mount = {"name": VOLUME, "mountPath": names.MODEL_MOUNT, "readOnly": True}
    return Parts(volumes=[volume], mounts=[mount])
