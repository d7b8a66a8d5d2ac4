"""The CustomResourceDefinition, written from the types: `python -m tenantry_api.crd [DIR]`.

Without DIR it writes every copy that the checkout holds: `crds/`, the chart's `crds/`, and the
reference page of the fields. With `--check` it writes nothing and exits 1 when a copy differs.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tenantry_api import names, parse, reference, schema
from tenantry_api.policy import Spec
from tenantry_api.status import Status

FILE = f"{names.PLURAL}.yaml"
COPIES = (Path("crds") / FILE, Path("charts") / "tenantry" / "crds" / FILE)
PAGE = Path("docs") / "reference" / "policy.md"
_HEADER = "# Made from the types of tenantry_api by `make crds`; change them there.\n"
_DESCRIPTION = (
    "TenantServingPolicy declares which tenants share a pool of LLM engines, what each of them is "
    "entitled to, and what the pool may claim of the cluster's GPUs."
)


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition as a manifest."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.PLURAL}.{names.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "tenantry"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": [names.CATEGORY],
            },
            "versions": [_version()],
        },
    }


def text() -> str:
    """The manifest as YAML."""
    body = yaml.dump(definition(), Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)
    return _HEADER + body


def main(argv: Sequence[str] | None = None) -> int:
    """0: written, or nothing differs. 1: `--check` found a copy that differs."""
    parser = argparse.ArgumentParser(prog="python -m tenantry_api.crd", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="write the manifest here only")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args(argv)
    wanted = _wanted(arguments.directory)
    if arguments.check:
        return _check(wanted)
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


class _Plain(yaml.SafeDumper):
    """YAML without anchors: equal parts are written out."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class names it
        return True


def _wanted(directory: Path | None) -> Mapping[Path, str]:
    if directory is not None:
        return {directory / FILE: text()}
    return {**dict.fromkeys(COPIES, text()), PAGE: reference.page()}


def _check(wanted: Mapping[Path, str]) -> int:
    stale = [path for path, content in wanted.items() if _content(path) != content]
    for path in stale:
        sys.stdout.write(f"{path} is not what the types say: run `make crds`\n")
    return 1 if stale else 0


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("Model", ".spec.model.name"),
            _column("Tenants", ".status.tenantNames"),
            _column("Share", ".status.gpu"),
            _column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            _column("Reason", ".status.conditions[?(@.type=='Ready')].reason"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
            _column("Weights", ".status.weights", priority=1),
            _column("Mode", ".spec.scheduling.mode", priority=1),
            _column("Hash", ".status.policyHash", priority=1),
        ],
        "schema": {"openAPIV3Schema": _root()},
    }


def _column(name: str, path: str, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})


def _root() -> dict[str, Any]:
    return {
        "description": _DESCRIPTION,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"description": "What the team declares.", **schema.structural(Spec)},
            "status": {"description": "What the operator saw.", **schema.structural(Status)},
        },
        "x-kubernetes-validations": [
            {
                "rule": f"self.metadata.name.matches('{parse.NAME_PATTERN}')",
                "message": f"metadata.name {parse.NAME_MESSAGE}",
            }
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
