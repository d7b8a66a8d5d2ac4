"""The process between the agent and a container: enters namespaces, forks, becomes the program.

The agent starts it as `python -ESs -m e2e.agent.runner SPEC REPORT`: two inherited descriptors, a
JSON description to read and a pipe to report to. It writes `pid N` (the container's first
process, as its parent's pid namespace numbers it) and, where anything goes wrong before the
program runs, `error TEXT`. It stays as the parent, exits with the program's status (128 + signal)
and dies with the agent; the container, process 1 of a pid namespace, dies with it.

The container's user namespace maps its uid to the uid that the agent has (root, or the plain
user who started it), so whatever that one may read, any `runAsUser` may read.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from e2e.agent import rootfs
from e2e.agent import syscalls as sys_
from e2e.agent.idmap import lines

if TYPE_CHECKING:
    from collections.abc import Callable

_OWN = (
    sys_.CLONE_NEWUSER
    | sys_.CLONE_NEWNS
    | sys_.CLONE_NEWPID
    | sys_.CLONE_NEWUTS
    | sys_.CLONE_NEWIPC
)
START_ERROR = 128


def main(arguments: list[str]) -> NoReturn:
    """Run what the description says; never returns."""
    sys_.die_with_parent(signal.SIGKILL)
    source, report = (int(argument) for argument in arguments)
    os.set_inheritable(source, False)
    os.set_inheritable(report, False)
    with os.fdopen(source, encoding="utf-8") as stream:
        spec: dict[str, Any] = json.load(stream)
    try:
        if "join" in spec:
            sys_.setns(os.pidfd_open(spec["join"]), _OWN | sys_.CLONE_NEWNET)
        else:
            _separate(spec)
        sys_.die_with_parent(signal.SIGKILL)
        child = os.fork()
        if child == 0:
            _guarded(lambda: _become(spec), report)
    except OSError as error:
        os.write(report, f"error {error}\n".encode())
        os._exit(START_ERROR)
    os.write(report, f"pid {child}\n".encode())
    os.close(report)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _separate(spec: dict[str, Any]) -> None:
    """New namespaces; the identity maps are written by a child that stays outside."""
    os.setsid()
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    network = os.open(spec["network"], os.O_RDONLY)
    sys_.setns(network, sys_.CLONE_NEWNET)
    os.close(network)
    me = os.getpid()
    ready, go = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.close(go)
        os.read(ready, 1)
        _write_maps(me, spec["uid"], spec["gid"])
    os.close(ready)
    sys_.unshare(_OWN)
    os.write(go, b"x")
    os.close(go)
    _, status = os.waitpid(writer, 0)
    if status != 0:
        raise OSError("the identity maps of the user namespace could not be written")


def _write_maps(process: int, uid: int, gid: int) -> NoReturn:
    code = 1
    try:
        for kind, wanted in (("uid", uid), ("gid", gid)):
            with open(f"/proc/self/{kind}_map", encoding="ascii") as stream:
                available = [int(line.split()[2]) for line in stream]
            with open(f"/proc/{process}/{kind}_map", "w", encoding="ascii") as stream:
                stream.write(lines(wanted, available[0]))
        code = 0
    finally:
        os._exit(code)


def _guarded(action: Callable[[], NoReturn], report: int) -> NoReturn:
    try:
        action()
    except (OSError, KeyError) as error:
        os.write(report, f"error {error}\n".encode())
    finally:
        os._exit(START_ERROR)


def _become(spec: dict[str, Any]) -> NoReturn:
    sys_.die_with_parent(signal.SIGKILL)
    if "join" not in spec:
        plan = rootfs.Plan(
            spec["base"],
            [rootfs.Bind(*bind) for bind in spec["binds"]],
            spec["masks"],
            spec["needed"],
            spec["readonly"],
        )
        rootfs.enter(rootfs.build(plan))
        _hostname(spec["hostname"])
    if spec.get("terminal"):
        _controlling_terminal()
    _credentials(spec)
    _execute(spec)


def _hostname(name: str) -> None:
    import socket  # noqa: PLC0415 - only here, and half of the start-up time

    socket.sethostname(name[:63])


def _controlling_terminal() -> None:
    import fcntl  # noqa: PLC0415
    import termios  # noqa: PLC0415

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _credentials(spec: dict[str, Any]) -> None:
    # In this order: what the bounding set lacks cannot be made to survive execve any more.
    if spec["read_all"]:
        sys_.keep_across_exec(sys_.CAP_DAC_READ_SEARCH)
    if spec["drop_all"]:
        sys_.drop_bounding_set()
    if spec["no_new_privileges"]:
        sys_.no_new_privileges()
    sys_.die_with_parent(signal.SIGKILL)


def _execute(spec: dict[str, Any]) -> NoReturn:
    environment: dict[str, str] = spec["environment"]
    if not os.path.isdir(spec["directory"]) and not spec["readonly"]:
        os.makedirs(spec["directory"])
    os.chdir(spec["directory"])
    program = spec["argv"][0]
    path = _found(program, environment.get("PATH", os.defpath))
    os.umask(0o022)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, spec["argv"], environment)


def _found(program: str, search: str) -> str:
    if "/" in program:
        return program
    for directory in search.split(":"):
        path = os.path.join(directory or ".", program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise OSError(f'exec: "{program}": executable file not found in $PATH')


if __name__ == "__main__":
    main(sys.argv[1:])
