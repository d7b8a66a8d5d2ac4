"""One document that is no policy, and short words for writing many of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry_api import rules
from tenantry_api.values import Part

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A spec that is refused at `path` with `message`; `server` is what the API server says when
    its schema, not a rule of ours, refuses."""

    id: str
    spec: Json
    path: str
    message: str
    server: str = ""

    @property
    def expected(self) -> str:
        """What the API server's answer must hold."""
        return self.server or self.message


def message_of(kind: type[Part], number: int) -> str:
    return rules.RULES[kind][number].message


def tenants(*tenants: Json) -> Json:
    return {"tenants": list(tenants)}


def a_tenant(**fields: Any) -> Json:
    return tenants({"name": "gold", **fields})
