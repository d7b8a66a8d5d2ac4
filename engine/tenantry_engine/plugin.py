"""The entry point by which vLLM finds the package, in each of its processes.

Installing the package changes nothing: `register` looks at the command line and the environment,
and imports nothing where neither asks for Tenantry. So this module may import the standard library
only.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

# The names of `tenantry_api.names`, which is not imported where nobody asks for Tenantry.
_VARIABLES = ("TENANTRY_POLICY", "VLLM_SCHEDULER_TENANT_SHARE")
_PACKAGE = "tenantry_engine."


def register() -> None:
    """Called by vLLM once in each process, before it makes an engine."""
    command = " ".join(words(sys.argv))
    if not asked(os.environ, command):
        return
    from tenantry_engine import startup  # noqa: PLC0415 - see above

    if multiprocessing.parent_process() is None:
        startup.check(os.environ, command, stops=started_as_command(sys.argv))
    startup.install()


def asked(environ: Mapping[str, str], command: str) -> bool:
    """Whether somebody wants Tenantry: by a variable, or by a class of ours in the arguments."""
    return _PACKAGE in command or any(name in environ for name in _VARIABLES)


def words(argv: Sequence[str]) -> list[str]:
    """The arguments, with the text of vLLM's `--config` files."""
    found = list(argv)
    for flag, value in zip_longest(argv, argv[1:], fillvalue=""):
        if flag == "--config":
            found.append(_text(value))
        elif flag.startswith("--config="):
            found.append(_text(flag.partition("=")[2]))
    return found


def started_as_command(argv: Sequence[str]) -> bool:
    """Whether this is vLLM's own program, which may end, and not somebody's that uses vLLM."""
    program = Path(argv[0] if argv else "")
    return program.name == "vllm" or "vllm" in program.parts


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
