"""Strategic merge of a partial pod template into a whole one, as `kubectl patch` does it.

Lists whose elements have a name are merged element by element; every other list is replaced. The
table below holds the merge keys of the PodSpec (Kubernetes' API types, `patchMergeKey`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
PATCH = "$patch"


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `patch` laid over it; neither is changed. A None in `patch` removes the key.

    `$patch: replace` beside other keys replaces the whole mapping, `$patch: delete` empties it.
    """
    if PATCH in patch:
        rest = {key: value for key, value in patch.items() if key != PATCH}
        return rest if patch[PATCH] == "replace" else {}
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(key, merged.get(key), value)
    return merged


def _merge_value(key: str, base: Any, patch: Any) -> Any:
    if isinstance(patch, Mapping):
        return merge(base if isinstance(base, Mapping) else {}, patch)
    if key in MERGE_KEYS and _is_list(patch) and all(isinstance(i, Mapping) for i in patch):
        return _merge_list(MERGE_KEYS[key], base if _is_list(base) else [], patch)
    return patch


def _merge_list(
    by: str, base: Sequence[Mapping[str, Any]], patch: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    if any(item.get(PATCH) == "replace" and by not in item for item in patch):
        return [dict(item) for item in patch if item.get(PATCH) != "replace"]
    if not all(by in item for item in (*base, *patch)):
        return [dict(item) for item in patch]  # the API server says what is missing
    merged = {item[by]: dict(item) for item in base}
    for item in patch:
        if item.get(PATCH) == "delete":
            merged.pop(item[by], None)
        else:
            merged[item[by]] = merge(merged.get(item[by], {}), item)
    return list(merged.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
