"""`tenantry version`."""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Print the version of the installed distribution."""
    parser = argparse.ArgumentParser(prog="tenantry version", allow_abbrev=False)
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    found = metadata.version("tenantry")
    as_json = parser.parse_args(argv).output == "json"
    print(json.dumps({"version": found}) if as_json else f"tenantry {found}")  # noqa: T201
    return 0
