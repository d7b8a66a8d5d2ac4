"""What an omitted field means, filled in as the API server does it, on plain documents.

Three defaults depend on other fields, so no schema can hold them: `servedName` is the policy's
name, `replicas` is 1 without autoscaling, the namespace is `default`.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tenantry_api.policy import Spec
from tenantry_api.values import Part


@cache
def parts_of(kind: type[Part]) -> tuple[tuple[str, type[Part], bool], ...]:
    """The fields of `kind` that hold further parts: name in documents, type, whether a list."""
    fields = ((field.alias or name, field.annotation) for name, field in kind.model_fields.items())
    found = ((alias, *_part(annotation)) for alias, annotation in fields)
    return tuple((alias, inner, many) for alias, inner, many in found if inner is not None)


def default_of(field: FieldInfo) -> Any:
    """The default as a document holds it; None where an omitted field stays away.

    A default object is whole: the API server checks its rules before it fills in what is inside.
    """
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return None
    if isinstance(value, Part):
        return filled(type(value), {})
    described: Any = field.annotation
    if field.metadata:
        described = Annotated[(described, *field.metadata)]
    return TypeAdapter(described).dump_python(value, mode="json", by_alias=True)


def filled(kind: type[Part], body: Any) -> Any:
    """`body` with the defaults of `kind`, all the way down; nulls count as omitted.

    What has the wrong shape comes back as it is, for the types to refuse.
    """
    if not isinstance(body, Mapping):
        return body
    given = {key: value for key, value in body.items() if value is not None}
    for alias, default in _defaults(kind).items():
        if alias not in given:
            given[alias] = deepcopy(default)
    for alias, inner, many in parts_of(kind):
        if alias in given:
            given[alias] = _filled_child(inner, given[alias], many)
    return given


@cache
def _defaults(kind: type[Part]) -> Mapping[str, Any]:
    found = {field.alias or name: default_of(field) for name, field in kind.model_fields.items()}
    return {alias: default for alias, default in found.items() if default is not None}


def document(body: Mapping[str, Any]) -> dict[str, Any]:
    """A whole policy with every default, those that depend on other fields included."""
    whole = {key: value for key, value in body.items() if key != "status"}
    spec = filled(Spec, whole.get("spec"))
    metadata = whole.get("metadata")
    if isinstance(metadata, Mapping):
        whole["metadata"] = {k: v for k, v in metadata.items() if v is not None}
    if isinstance(spec, dict):
        whole["spec"] = _dependent(spec, metadata)
    return whole


def _dependent(spec: dict[str, Any], metadata: object) -> dict[str, Any]:
    model, engine = spec.get("model"), spec.get("engine")
    if isinstance(model, dict) and isinstance(metadata, Mapping) and metadata.get("name"):
        model.setdefault("servedName", metadata["name"])
    if isinstance(engine, dict) and "autoscaling" not in engine:
        engine.setdefault("replicas", 1)
    return spec


def _filled_child(inner: type[Part], value: Any, many: bool) -> Any:
    if not many:
        return filled(inner, value)
    return [filled(inner, item) for item in value] if isinstance(value, list | tuple) else value


def _part(annotation: Any) -> tuple[type[Part] | None, bool]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation, False
    for argument in get_args(annotation):
        inner, _ = _part(argument)
        if inner is not None:
            return inner, getattr(annotation, "__origin__", None) is tuple
    return None, False
