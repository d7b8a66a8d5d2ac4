"""The structural schema of a type, as a CustomResourceDefinition wants it.

pydantic writes JSON Schema with references, titles and `anyOf` null; the API server takes none of
these. What remains is one tree, with the defaults, descriptions and CEL rules of the types.
"""

from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from tenantry_api import defaults, rules
from tenantry_api.rules import Rule
from tenantry_api.values import Part

Schema = dict[str, Any]


def structural(kind: type[Part]) -> Schema:
    """The schema of `kind`: type, description, properties, required fields, CEL rules."""
    generated = kind.model_json_schema(by_alias=True)
    inner = {alias: (part, many) for alias, part, many in defaults.parts_of(kind)}
    properties = {}
    for name, field in kind.model_fields.items():
        alias = field.alias or name
        leaf = _clean(generated["properties"][alias], generated.get("$defs", {}))
        properties[alias] = _field(field, _nested(leaf, *inner[alias]) if alias in inner else leaf)
    schema: Schema = {"type": "object", "properties": properties}
    if "required" in generated:
        schema["required"] = generated["required"]
    found = [_validation(rule) for rule in rules.RULES.get(kind, ())]
    if found:
        schema["x-kubernetes-validations"] = found
    return schema


def _field(field: FieldInfo, schema: Schema) -> Schema:
    """`schema` with the words and the default of the field first."""
    described: Schema = {"description": field.description} if field.description else {}
    default = defaults.default_of(field)
    if default is not None:
        described["default"] = default
    if "type" in schema:
        described["type"] = schema["type"]
    return described | {key: value for key, value in schema.items() if key not in described}


def _nested(leaf: Schema, part: type[Part], many: bool) -> Schema:
    if not many:
        return structural(part)
    return {key: value for key, value in leaf.items() if key != "items"} | {
        "items": structural(part)
    }


def _clean(raw: Any, defs: Mapping[str, Any]) -> Any:
    """`raw` without references, titles, defaults, and the null of an optional field."""
    if isinstance(raw, list):
        return [_clean(item, defs) for item in raw]
    if not isinstance(raw, dict):
        return raw
    merged = dict(raw)
    reference = merged.pop("$ref", None)
    if reference:
        merged = defs[reference.rsplit("/", 1)[-1]] | merged
    for choice in merged.pop("anyOf", ()):
        if choice != {"type": "null"}:
            merged = choice | merged
    if "$ref" in merged:
        return _clean(merged, defs)
    if merged.get("additionalProperties") in (True, False):
        del merged["additionalProperties"]
    return {
        key: _clean(value, defs) for key, value in merged.items() if key not in ("title", "default")
    }


def _validation(rule: Rule) -> Schema:
    validation = {"rule": rule.cel, "message": rule.message}
    if rule.field:
        validation["fieldPath"] = f".{rule.field}"
    return validation
