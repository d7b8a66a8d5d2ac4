"""What has to be done about one child: desired and observed -> an answer.

A child is applied when the manifest we would send is another one than last time (an annotation on
the child holds a digest of it, so a restarted operator knows), or when somebody changed a field
that the manifest names. Fields that it does not name belong to others and are left alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from tenantry_api import names

ANNOTATION_MANIFEST = f"{names.GROUP}/manifest"
_ELEMENT_KEYS = ("uid", "name", "mountPath", "containerPort", "port")


class Answer(StrEnum):
    """What to do with a child."""

    APPLY = "apply"
    KEEP = "keep"
    WAIT = "wait"  # it is being deleted, or the garbage collector will take it
    CONFLICT = "conflict"  # it belongs to somebody else


def stamped(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with a digest of itself among its annotations."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    meta = manifest["metadata"]
    notes = {**meta.get("annotations", {}), ANNOTATION_MANIFEST: digest}
    return {**manifest, "metadata": {**meta, "annotations": notes}}


def answer(desired: Mapping[str, Any], observed: Mapping[str, Any] | None) -> Answer:
    """What to do so that the child is as `desired` (a stamped manifest with one owner) says."""
    if observed is None:
        return Answer.APPLY
    (wanted,) = desired["metadata"]["ownerReferences"]
    owner = controller(observed)
    if owner is None or owner.get("uid") != wanted["uid"]:
        return Answer.WAIT if _is_predecessor(owner, wanted) else Answer.CONFLICT
    if observed["metadata"].get("deletionTimestamp"):
        return Answer.WAIT
    return Answer.KEEP if holds(desired, observed) else Answer.APPLY


def controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the one who controls the object."""
    owners: Sequence[Mapping[str, Any]] = manifest["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def holds(desired: Any, observed: Any) -> bool:
    """Whether everything that `desired` says is so in `observed`, which may say more.

    The API server leaves out what is empty.
    """
    if observed is None and desired in ([], {}, ""):
        return True
    if isinstance(desired, Mapping):
        return isinstance(observed, Mapping) and all(
            holds(value, observed.get(key)) for key, value in desired.items()
        )
    if isinstance(desired, Sequence) and not isinstance(desired, str):
        return isinstance(observed, Sequence) and _list_holds(desired, observed)
    return bool(desired == observed)


def keep_replicas(desired: Mapping[str, Any], observed: Mapping[str, Any] | None) -> dict[str, Any]:
    """A Deployment whose number an autoscaler owns, without setting that number back to 1.

    Leaving out a field that only we have set would reset it; so it stays, at its present value,
    until the autoscaler has written it once and owns it.
    """
    if "replicas" in desired["spec"] or observed is None or not _owns_replicas(observed):
        return dict(desired)
    return {**desired, "spec": {**desired["spec"], "replicas": observed["spec"]["replicas"]}}


def _owns_replicas(observed: Mapping[str, Any]) -> bool:
    return any(
        entry.get("manager") == names.FIELD_MANAGER
        and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in observed["metadata"].get("managedFields", [])
    )


def _is_predecessor(owner: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Whether the child belongs to a deleted policy of the same name."""
    same = ("apiVersion", "kind", "name")
    return owner is not None and all(owner.get(key) == wanted[key] for key in same)


def _list_holds(desired: Sequence[Any], observed: Sequence[Any]) -> bool:
    by = _element_key(desired)
    if by is None:
        return len(desired) == len(observed) and all(map(holds, desired, observed))
    found = {item.get(by): item for item in observed if isinstance(item, Mapping)}
    return all(holds(item, found.get(item[by])) for item in desired)


def _element_key(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _ELEMENT_KEYS if all(key in item for item in items)), None)
