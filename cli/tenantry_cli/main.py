"""`tenantry COMMAND ...`: finds the command in a table and runs it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenantry_api.program import LACKING, lack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PLUGIN = "kubectl-tenantry"
"""The name under which kubectl finds the program as a plugin of its own."""


@dataclass(frozen=True)
class Command:
    """A command: the module whose `run(argv) -> int` it is, and one line for the list.

    Modules are imported when they are called, so that no command needs what another one needs.
    """

    module: str
    help: str

    def run(self, argv: Sequence[str]) -> int:
        found: Callable[[Sequence[str]], Any] = import_module(self.module).run
        return int(found(argv))


COMMANDS: Mapping[str, Command] = {
    "bench": Command("tenantry_bench.main", "put a load of several tenants on an endpoint"),
    "serve": Command("tenantry_cli.serve", "one engine with a policy, without Kubernetes"),
    "simulate": Command(
        "tenantry_bench.simulator.main", "the real scheduler on a virtual clock, several arms"
    ),
    "version": Command("tenantry_cli.about", "print the version"),
}


def usage(program: str) -> str:
    """Return the list of commands."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join([f"usage: {program} COMMAND [ARGUMENTS]", "", *lines])


def dispatch(program: str, argv: Sequence[str]) -> int:
    """Run the command that `argv` begins with and return its exit code; 2 where there is none."""
    if not argv:
        print(usage(program), file=sys.stderr)  # noqa: T201 - wrong use
        return 2
    name, *rest = argv
    if name in ("-h", "--help", "help"):
        print(usage(program))  # noqa: T201 - the result
        return 0
    if name == "--version":
        name = "version"
    command = COMMANDS.get(name)
    if command is None:
        print(f"{program}: there is no command {name}\n{usage(program)}", file=sys.stderr)  # noqa: T201
        return 2
    return _guarded(program, name, command, rest)


def _guarded(program: str, name: str, command: Command, argv: Sequence[str]) -> int:
    """Translate what a command cannot: a missing extra, an interrupt."""
    try:
        return command.run(argv)
    except ModuleNotFoundError as error:
        print(lack(f"{program} {name}", error, "cli"), file=sys.stderr)  # noqa: T201
        return LACKING
    except KeyboardInterrupt:
        return 130


def main() -> None:
    """Be the program, under whichever of its two names it was called."""
    program = "kubectl tenantry" if Path(sys.argv[0]).name == PLUGIN else "tenantry"
    _open_standard_streams()
    try:
        code = dispatch(program, sys.argv[1:])
        if sys.stdout is not None:  # None: it was closed before we began
            sys.stdout.flush()
    except OSError as error:
        code = _broken(program, error)
    sys.exit(code)


def _open_standard_streams() -> None:
    """Give a stream that the caller has closed to nobody, lest the next open file takes its place.

    Without it a socket becomes standard output, and results go into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _broken(program: str, error: OSError) -> int:
    """Say that results could not be written: no reader any more, or a full disk."""
    with suppress(OSError):
        print(f"{program}: the results cannot be written: {error.strerror}", file=sys.stderr)  # noqa: T201
    # What is still in the buffer cannot be written either, and Python would try at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 3
