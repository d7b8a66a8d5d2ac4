"""The reference page of the fields, written from the types."""

from collections.abc import Iterator, Mapping
from typing import Any

from tenantry_api import defaults, enforcement, engine, names, rules, schema
from tenantry_api.policy import Spec
from tenantry_api.values import Part

_INTRO = f"""# TenantServingPolicy

`{names.API_VERSION}`, kind `{names.KIND}`, short name `{names.SHORT_NAME}`, category
`{names.CATEGORY}`, namespaced. This page is made from the types by `make crds`; on a cluster
`kubectl explain {names.SHORT_NAME}.spec` gives the meanings. Examples are in `docs/examples/`, what
the status says in [conditions](conditions.md).

A quantity is a whole number, or a text in quotes: `"0.5"`, `"500m"`, `"2k"`. A duration is a text:
`500ms`, `30s`, `1m30s`.

The last column says what this version does with a field: `yes`, it has its effect; `not yet`, it
is accepted, has no effect, and its path stands in the condition `FullyEnforced`, also where the
default asks for it.
"""

_CLAIMS = f"""## Who may claim what

Weights of policies count inside their namespace. Between namespaces the label
`{names.LABEL_NAMESPACE_WEIGHT}` on the Namespace counts (1 without it), which only those may write
who may write Namespaces. Who may use which PriorityClass is Kubernetes' own ResourceQuota, one in
each namespace that is to be bounded:

```yaml
apiVersion: v1
kind: ResourceQuota
metadata: {{name: critical, namespace: llm}}
spec:
  hard: {{pods: "4"}}
  scopeSelector:
    matchExpressions:
    - {{scopeName: PriorityClass, operator: In, values: [tenantry-critical]}}
```

A Secret that a policy names is read in the namespace of the policy, so whoever may write policies
in a namespace can have its Secrets given to a pod there.

"""

_AS_ABOVE: Mapping[str, str] = {"tenants[].dedicated.gpu": "gpu"}
"""Objects with the fields of another, which the page lists once."""
_DEPENDENT: Mapping[str, str] = {
    "model.servedName": "the policy's name",
    "model.source": "the hub",
    "engine.replicas": "1 without autoscaling",
    "engine.image": "the operator's",
    "tenants[].dedicated.gpu": "the policy's",
    "tenants[].dedicated.priorityClassName": "the policy's",
}


def page() -> str:
    """The whole page as Markdown."""
    lines = [
        _INTRO,
        "## Fields of `spec`",
        "",
        "| field | values | default | meaning | enforced |",
        "|---|---|---|---|---|",
        *(_row(path, node, needed) for path, node, needed in _nodes(schema.structural(Spec), "")),
        "",
        "## Rules",
        "",
        "The API server and every reader of a policy file refuse what breaks one of these. What",
        "is said of `gpu` holds for `tenants[].dedicated.gpu` too.",
        "",
        f"- `engine.args`: {engine.OWNED_MESSAGE}.",
        *_rules(),
        "",
        _CLAIMS + "## Without a cluster",
        "",
        f"`{names.ENV_POLICY}=FILE` gives an engine a whole policy, YAML or JSON, with the same",
        "types, defaults and messages. Only a cluster can honour `model`, `engine`, `gpu`,",
        "`priorityClassName`, `weight` and `tenants[].dedicated`.",
    ]
    return "\n".join(lines) + "\n"


def _nodes(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every field below `node`: path, schema, whether it is required."""
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        needed = name in node.get("required", ())
        below = child.get("items", child)
        if child.get("type") == "array" and "properties" in below:
            here += "[]"
        yield here, child, needed
        if here not in _AS_ABOVE:
            yield from _nodes(below, here)


def _row(path: str, node: Mapping[str, Any], needed: bool) -> str:
    default = "required" if needed else _DEPENDENT.get(path) or _default(node)
    cells = (f"`{path}`", _values(path, node), default, node["description"], _enforced(path, node))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(node: Mapping[str, Any]) -> str:
    value = node.get("default")
    if value in (None, []) or isinstance(value, dict):
        return ""
    return f"`{value}`"


def _values(path: str, node: Mapping[str, Any]) -> str:
    if path in _AS_ABOVE:
        return f"as `{_AS_ABOVE[path]}`"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if node.get("type") == "integer":
        return f"{node.get('minimum', 0)} to {node['maximum']}"
    if node.get("type") == "array":
        return f"list, at most {node['maxItems']}"
    rules_here = node.get("x-kubernetes-validations", ())
    if any("duration(" in rule["rule"] for rule in rules_here):
        return "duration"
    return "object" if node.get("type") == "object" else "text"


def _enforced(path: str, node: Mapping[str, Any]) -> str:
    if "properties" in node.get("items", node) and not enforcement.is_mentioned(path):
        return ""
    return "not yet" if enforcement.is_mentioned(path) else "yes"


def _rules() -> Iterator[str]:
    seen: set[type[Part]] = set()
    for path, kind in _kinds():
        if kind in seen:
            continue
        seen.add(kind)
        for rule in rules.RULES.get(kind, ()):
            where = ".".join(piece for piece in (path, rule.field) if piece)
            yield f"- `{where}`: {rule.message}."


def _kinds() -> Iterator[tuple[str, type[Part]]]:
    yield "", Spec
    yield from _kinds_below(Spec, "")


def _kinds_below(kind: type[Part], path: str) -> Iterator[tuple[str, type[Part]]]:
    for alias, inner, many in defaults.parts_of(kind):
        here = ".".join(piece for piece in (path, alias) if piece) + ("[]" if many else "")
        yield here, inner
        yield from _kinds_below(inner, here)
