"""A document becomes a policy, or a list of everything that is wrong with it.

The same findings come for an object from the cluster and for a file without one: types first, then
the rules of `rules`, all in one go.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tenantry_api import defaults, names, rules
from tenantry_api.policy import Spec, TenantServingPolicy
from tenantry_api.status import Status
from tenantry_api.values import Part

NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
NAME_MESSAGE = (
    "must be 1 to 63 lower-case letters, digits and dashes, starting with a letter: the Service "
    "of the policy has this name"
)
_SHOWN = 80
_MERGE = "tag:yaml.org,2002:merge"
_YAML_HINT = "put it in quotes: YAML reads it as {kind}"
_YAML_KINDS = {"bool": "true or false", "date": "a date", "int": "a number", "float": "a number"}
_WHOLE = "must be a whole number"
_MESSAGES: Mapping[str, str] = {
    "missing": "is required",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of fields",
    "model_attributes_type": "must be a mapping of fields",
    "dict_type": "must be a mapping",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where (`spec.tenants[0].weight`), what stands there, what to do."""

    path: str
    value: Any
    message: str

    def __str__(self) -> str:
        """One line; a missing value is not shown."""
        return f"{self.path}: {self.message}{self._shown()}"

    def _shown(self) -> str:
        if self.value is None or isinstance(self.value, Mapping | list | tuple):
            return ""
        text = repr(self.value) if isinstance(self.value, str) else str(self.value)
        return f" (it is {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'})"


class Invalid(ValueError):
    """A document is no policy. `findings` holds every reason; str() lists them all."""

    def __init__(self, findings: tuple[Finding, ...], where: str = "") -> None:
        """`where` names the file, when there is one."""
        self.findings = findings
        self.where = where
        count = "1 mistake" if len(findings) == 1 else f"{len(findings)} mistakes"
        head = f"{where}: {count}" if where else count
        super().__init__("\n".join([head, *(f"  {finding}" for finding in findings)]))


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once: of two weights, neither is the one that was meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; raises where a key stands in it twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    problem = f"the key `{key.value}` stands here twice"
                    raise yaml.constructor.ConstructorError(
                        problem=problem, problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """A value; raises with its place where it looks like a date or number and is none."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            written = str(node.value)[:_SHOWN]
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                problem=f"`{written}` is no {kind}: put it in quotes if it is a text",
                problem_mark=node.start_mark,
            ) from error


def policy(body: Mapping[str, Any]) -> TenantServingPolicy:
    """The policy that `body` describes, defaults filled in. Raises Invalid with every finding."""
    if not isinstance(body, Mapping):
        raise Invalid((Finding("(document)", body, "must be a mapping of fields"),))
    whole = defaults.document(body)
    if bare := tuple(_bare_spec(body)):
        raise Invalid(bare)
    found = list(_wrong_name(whole))
    parsed: TenantServingPolicy | None = None
    try:
        parsed = TenantServingPolicy.model_validate(whole, by_alias=True, by_name=False)
    except ValidationError as error:
        found.extend(map(_finding, _causes(error.errors(include_url=False))))
    found.extend(_broken(Spec, whole.get("spec"), "spec"))
    if found or parsed is None:
        raise Invalid(tuple(found))
    return parsed.model_copy(update={"status": _status(body.get("status"))})


def text(source: str, where: str) -> TenantServingPolicy:
    """The policy in a YAML or JSON text; `where` names it in messages. Raises Invalid."""
    try:
        loaded = yaml.load_all(source, Loader=_Loader)
        documents = [item for item in loaded if item is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        finding = Finding("(file)", None, f"cannot be read: {yaml_words(error)}")
        raise Invalid((finding,), where) from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        message = f"must hold one TenantServingPolicy, it holds {len(documents)} documents"
        if len(documents) == 1:
            message = "must hold one TenantServingPolicy, a mapping of fields"
        raise Invalid((Finding("(file)", None, message),), where)
    try:
        return policy(documents[0])
    except Invalid as error:
        raise Invalid(error.findings, where) from error


def yaml_words(error: Exception) -> str:
    """What a YAML reader said of a text, in one line."""
    return " ".join(str(error).split()).replace('in "<unicode string>", line', "in line")


def _bare_spec(body: Mapping[str, Any]) -> Iterator[Finding]:
    fields = {field.alias or name for name, field in Spec.model_fields.items()}
    if "spec" not in body and body.keys() & fields:
        yield Finding(
            "spec",
            None,
            f"is missing: this is a bare spec. Put `apiVersion: {names.API_VERSION}`, "
            f"`kind: {names.KIND}` and `metadata: {{name: ...}}` above it and indent it "
            "under `spec:`",
        )


def _wrong_name(whole: Mapping[str, Any]) -> Iterator[Finding]:
    metadata = whole.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if isinstance(name, str) and not re.fullmatch(NAME_PATTERN, name):
        yield Finding("metadata.name", name, NAME_MESSAGE)


def _broken(kind: type[Part], body: Any, path: str) -> Iterator[Finding]:
    if not isinstance(body, Mapping):
        return
    for rule, message in rules.broken(kind, body):
        where = f"{path}.{rule.field}" if rule.field else path
        yield Finding(where, body.get(rule.field), message)
    for alias, inner, many in defaults.parts_of(kind):
        value = body.get(alias)
        if many and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _broken(inner, item, f"{path}.{alias}[{index}]")
        elif not many:
            yield from _broken(inner, value, f"{path}.{alias}")


def _causes(details: list[ErrorDetails]) -> Iterator[ErrorDetails]:
    """All but lists that lack an item because what they hold is wrong."""
    for detail in details:
        own = detail["loc"]
        inner = (other["loc"] for other in details if other is not detail)
        if detail["type"] != "too_short" or all(loc[: len(own)] != own for loc in inner):
            yield detail


def _finding(detail: ErrorDetails) -> Finding:
    path = _path(detail["loc"])
    return Finding(path, None if detail["type"] == "missing" else detail["input"], _message(detail))


def _path(loc: tuple[int | str, ...]) -> str:
    pieces = [f"[{piece}]" if isinstance(piece, int) else f".{piece}" for piece in loc]
    return "".join(pieces).removeprefix(".") or "(document)"


def _message(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return _unknown(detail["loc"])
    if kind == "string_type":
        return "must be a text" + _yaml_hint(detail["input"])
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected']}" + _yaml_hint(detail["input"])
    said = re.sub("^[A-Z][a-z]+ should", "must", detail["msg"])
    return _MESSAGES.get(kind) or said.replace(" after validation, not", "; here are")


def _yaml_hint(value: Any) -> str:
    seen = type(value).__name__
    return f"; {_YAML_HINT.format(kind=_YAML_KINDS[seen])}" if seen in _YAML_KINDS else ""


def _unknown(loc: tuple[int | str, ...]) -> str:
    kind: type[Part] = TenantServingPolicy
    for piece in loc[:-1]:
        kind = next((inner for alias, inner, _ in defaults.parts_of(kind) if alias == piece), kind)
    known = [field.alias or name for name, field in kind.model_fields.items()]
    near = get_close_matches(str(loc[-1]), known, n=1)
    return "is no field here; " + (
        f"did you mean `{near[0]}`?" if near else "there are: " + ", ".join(known)
    )


def _status(value: Any) -> Status:
    try:
        return Status.model_validate(value or {}, by_alias=True, by_name=False)
    except ValidationError:
        return Status()
