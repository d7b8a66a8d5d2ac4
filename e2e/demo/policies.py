"""The two example policies of the demo, with this machine's overlay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e import paths
from e2e.demo.arms import STOCK, TENANTRY
from e2e.problem import Problem
from tenantry_api import parse
from tenantry_api.policy import TenantServingPolicy

EXAMPLES = {TENANTRY: "noisy-neighbour.yaml", STOCK: "stock.yaml"}
OVERLAY = Path(__file__).with_name("overlay.yaml")


def patched(target: Any, patch: Any) -> Any:
    """`target` with a JSON merge patch (RFC 7386): mappings merge, null removes, else replace."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = patched(result.get(key), value)
    return result


def load(server: str) -> dict[str, Any]:
    """The policy of a server, overlaid."""
    example = paths.checkout() / "docs" / "examples" / EXAMPLES[server]
    body = yaml.safe_load(example.read_text("utf-8"))
    overlay = yaml.safe_load(OVERLAY.read_text("utf-8"))
    result: dict[str, Any] = patched(body, overlay)
    return result


def checked(body: Mapping[str, Any]) -> TenantServingPolicy:
    """The policy as the product reads it; `Problem` where it is none."""
    try:
        return parse.policy(body)
    except parse.Invalid as error:
        raise Problem(f"the demo's policy is not valid: {error}") from error


def write(folder: Path) -> dict[str, Path]:
    """Write both policies, overlaid, into `folder`; the files by server."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for server, example in EXAMPLES.items():
        body = load(server)
        checked(body)
        files[server] = folder / example
        files[server].write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    return files


def read(file: Path) -> dict[str, Any]:
    """The body of a policy file."""
    body: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return body
