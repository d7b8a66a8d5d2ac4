"""`tenantry serve --policy FILE -- ARGUMENTS`: one engine with a policy, without Kubernetes.

It becomes `vllm serve ARGUMENTS`, with the policy in its environment and Tenantry's scheduler and
door added. Host, port, model and everything else are the user's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tenantry_api import names, parse
from tenantry_api.choices import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tenantry_api.policy import TenantServingPolicy

BAD_INPUT: Final = 2
ENVIRONMENT: Final = 3
OWNED: Final = ("--scheduler-cls", "--scheduling-policy", "--middleware")
# argparse takes the unambiguous beginning of a flag for the flag.
_SHORTEST: Final = len("--midd")


class ServeError(Exception):
    """The engine is not started. The text is for the user, `status` the exit code."""

    def __init__(self, text: str, status: int = BAD_INPUT) -> None:
        """`status` is 2 for bad input, 3 for something that is not there."""
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Invocation:
    """The program that takes this one's place."""

    path: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]


def run(argv: Sequence[str]) -> int:
    """Become the engine; returns only where that fails."""
    try:
        found = prepare(argv, os.environ, find_vllm)
    except ServeError as error:
        print(f"tenantry serve: {error}", file=sys.stderr)  # noqa: T201 - what the user reads
        return error.status
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(found.path, found.argv, found.environ)  # noqa: S606 - vllm itself
    return ENVIRONMENT


def prepare(
    argv: Sequence[str], environ: Mapping[str, str], find: Callable[[], str | None]
) -> Invocation:
    """What is to be started. Raises ServeError; argparse ends the program for wrong use."""
    path, arguments = _options(argv)
    policy = _policy(path)
    kept = {
        name: value
        for name, value in environ.items()
        if name not in (names.ENV_POLICY, names.ENV_SHARE)
    }
    added: tuple[str, ...] = ()
    if policy.spec.scheduling.mode is not Mode.OFF:
        _refuse_owned(arguments)
        kept[names.ENV_POLICY] = str(path.absolute())
        added = ("--scheduler-cls", names.SCHEDULER_CLASS, "--middleware", names.MIDDLEWARE)
    program = find()
    if program is None:
        raise ServeError(
            "there is no `vllm` beside this program or on the PATH: install vLLM into the same "
            "environment, or use an image that has it",
            ENVIRONMENT,
        )
    return Invocation(program, (program, "serve", *arguments, *added), kept)


def find_vllm() -> str | None:
    """The `vllm` of this environment, else the one on the PATH."""
    beside = Path(sys.executable).with_name("vllm")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("vllm")


def _options(argv: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    parser = argparse.ArgumentParser(
        prog="tenantry serve",
        usage="tenantry serve --policy FILE -- VLLM-SERVE-ARGUMENTS",
        description="One engine with a policy, without Kubernetes.",
        allow_abbrev=False,
    )
    parser.add_argument("--policy", required=True, type=Path, help="a TenantServingPolicy")
    own, dashes, rest = _split(argv)
    options, strange = parser.parse_known_args(own)
    if strange:
        parser.error(
            f"{' '.join(strange)} is for `vllm serve`: write it after `--`, as in "
            f"tenantry serve --policy {options.policy} -- {' '.join([*strange, *rest])}"
        )
    if not dashes or not rest:
        parser.error("the arguments of `vllm serve` are missing: write them after `--`")
    return options.policy, rest


def _split(argv: Sequence[str]) -> tuple[list[str], bool, tuple[str, ...]]:
    words = list(argv)
    if "--" not in words:
        return words, False, ()
    at = words.index("--")
    return words[:at], True, tuple(words[at + 1 :])


def _policy(path: Path) -> TenantServingPolicy:
    try:
        return parse.text(path.read_text(encoding="utf-8"), str(path))
    except parse.Invalid as error:
        raise ServeError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ServeError(
            f"--policy {path} cannot be read ({why}): give the path of a {names.KIND} "
            "in YAML or JSON"
        ) from error


def _refuse_owned(arguments: Sequence[str]) -> None:
    for argument in arguments:
        flag = argument.partition("=")[0].replace("_", "-")
        owned = [name for name in OWNED if len(flag) >= _SHORTEST and name.startswith(flag)]
        if owned:
            raise ServeError(
                f"{argument} is set by Tenantry: leave {owned[0]} out, or set "
                "spec.scheduling.mode to Off"
            )
