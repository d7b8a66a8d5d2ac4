"""Where things lie: the checkout, its environment and the user's cache folder."""

import os
import sys
from pathlib import Path


def cache() -> Path:
    """The folder of what is fetched and built once per version."""
    chosen = os.environ.get("TENANTRY_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenantry"


def checkout() -> Path:
    """The root of the checkout that this module lies in."""
    return Path(__file__).resolve().parent.parent


def venv() -> Path:
    """The Python environment that runs this process."""
    return Path(sys.prefix)


def clusters() -> Path:
    """The folder that holds one run directory per cluster."""
    return checkout() / "build" / "clusters"
