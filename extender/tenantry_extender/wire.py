"""The messages of the scheduler extender API, v1: checked at the door, plain values behind it.

Keys are Go field names, for the Go types carry no JSON tags. The unused one of two fields comes as
`null`. Pods and nodes inside keep the names of the Kubernetes API and stay dicts. Unknown fields
are left alone: a newer kube-scheduler may send more.
"""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

M = TypeVar("M", bound=BaseModel)


class Malformed(ValueError):
    """A body that is no such message; the text names the field."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore")


class NodeList(_Message):
    items: list[dict[str, Any]] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _null_items(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("items", ()) is None:
            return {**value, "items": []}
        return value


class Args(_Message):
    """The question of filter and prioritize: a pod, and either node names or whole nodes."""

    pod: dict[str, Any] = Field(alias="Pod")
    nodes: NodeList | None = Field(default=None, alias="Nodes")
    node_names: list[str] | None = Field(default=None, alias="NodeNames")

    @model_validator(mode="after")
    def _is_answerable(self) -> "Args":
        if self.nodes is None and self.node_names is None:
            raise ValueError("one of Nodes and NodeNames must be given; both are null")
        metadata = self.pod.get("metadata") or {}
        if not metadata.get("uid") or not metadata.get("name"):
            raise ValueError("Pod.metadata needs uid and name")
        if any(not (item.get("metadata") or {}).get("name") for item in self._items()):
            raise ValueError("an item of Nodes has no metadata.name")
        return self

    @property
    def names(self) -> list[str]:
        if self.node_names is not None:
            return self.node_names
        return [item["metadata"]["name"] for item in self._items()]

    def _items(self) -> list[dict[str, Any]]:
        return self.nodes.items if self.nodes is not None else []


class FilterResult(_Message):
    """The answer of filter. Where whole nodes came, nodes go back: names alone would count as no
    node."""

    nodes: dict[str, Any] | None = Field(default=None, alias="Nodes")
    node_names: list[str] | None = Field(default=None, alias="NodeNames")
    failed: dict[str, str] = Field(default_factory=dict, alias="FailedNodes")
    unresolvable: dict[str, str] = Field(default_factory=dict, alias="FailedAndUnresolvableNodes")
    error: str = Field(default="", alias="Error")


class HostPriority(_Message):
    host: str = Field(alias="Host")
    score: int = Field(alias="Score", ge=0, le=10)


class BindingArgs(_Message):
    pod_name: str = Field(alias="PodName", min_length=1)
    pod_namespace: str = Field(alias="PodNamespace", min_length=1)
    pod_uid: str = Field(alias="PodUID", min_length=1)
    node: str = Field(alias="Node", min_length=1)


class BindingResult(_Message):
    error: str = Field(default="", alias="Error")


def parse(message: type[M], body: bytes) -> M:
    """Read a request body; Malformed says which field is wrong."""
    try:
        return message.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise Malformed(f"{where}: {first['msg']}") from error


def accepted(args: Args, names: list[str]) -> dict[str, Any]:
    """The two fields of a filter answer that carry the nodes, in the form in which they came."""
    if args.node_names is not None:
        return {"NodeNames": names}
    items = [{"metadata": {"name": name}} for name in names]
    return {"Nodes": {"metadata": {}, "items": items}}
