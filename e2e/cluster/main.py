"""The command `python -m e2e.cluster`: up, down, status, exec."""

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from e2e import fetch, paths, system
from e2e.cluster import layout, sandbox
from e2e.cluster.handle import Cluster
from e2e.cluster.layout import Layout
from e2e.cluster.nodes import gpu_nodes
from e2e.problem import EXIT, Problem, sentence

DONE, NOT_UP, INTERRUPTED = 0, 1, 130
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
DEFAULT_NAME, DEFAULT_NODES, DEFAULT_GPUS = "default", 2, 4
MOST_NODES, MOST_GPUS = 1000, 64


def run(argv: Sequence[str]) -> int:
    """Run one command; returns its exit status (interfaces: 0, 1 not up, 2, 3, 130)."""
    options = _parser().parse_args(argv)
    try:
        return COMMANDS[options.command](options)
    except (Problem, OSError) as error:
        fetch.say(f"cluster {options.command}: {sentence(error)}")
        return EXIT
    except KeyboardInterrupt:
        fetch.say(f"cluster {options.command}: interrupted; nothing is left running")
        return INTERRUPTED


def up(options: argparse.Namespace) -> int:
    """Start the cluster, or say that it is up; a number given sets the nodes of a running one."""
    nodes = gpu_nodes(
        DEFAULT_NODES if options.nodes is None else options.nodes,
        DEFAULT_GPUS if options.gpus is None else options.gpus,
    )
    cluster = Cluster.attach(options.name)
    if cluster is not None:
        fetch.say(f"cluster {options.name} is already up")
        if options.nodes is not None or options.gpus is not None:
            cluster.set_nodes(nodes)
    else:
        system.ensure()
        fetch.say(f"starting cluster {options.name}")
        cluster = Cluster.start(options.name, nodes)
        cluster.detach()
    _print(str(cluster.kubeconfig))
    return DONE


def down(options: argparse.Namespace) -> int:
    """Stop the cluster; nothing to do is fine too."""
    cluster = Cluster.attach(options.name)
    if cluster is not None:
        cluster.stop()
        fetch.say(f"cluster {options.name} is stopped")
        return DONE
    fetch.say(f"cluster {options.name} is not up")
    sandbox.clean(_files(options))
    return DONE


def status(options: argparse.Namespace) -> int:
    """Say whether the cluster is up, and where; 1 where it is not, 3 where it broke down."""
    cluster = Cluster.attach(options.name)
    if cluster is None:
        _explain_death(_files(options))
    facts = _facts(options.name, cluster)
    if options.output == "json":
        _print(json.dumps(facts))
    else:
        _print("\n".join(f"{key:<12}{value}" for key, value in facts.items()))
    return DONE if cluster else NOT_UP


def execute(options: argparse.Namespace) -> int:
    """Become the given command inside the sandbox; its exit status is the command's."""
    cluster = Cluster.attach(options.name)
    if cluster is None:
        _explain_death(_files(options))
        raise Problem(f"cluster {options.name} is not up; `python -m e2e.cluster up` starts it")
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    command, env = cluster.entry(argv or ["bash"], os.environ, Path.cwd())
    os.execvpe(command[0], command, env)  # noqa: S606 - the command is the user's own


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "exec": execute,
}


def _files(options: argparse.Namespace) -> Layout:
    return Layout(paths.clusters() / options.name)


def _facts(name: str, cluster: Cluster | None) -> dict[str, object]:
    if cluster is None:
        return {"name": name, "up": False}
    return {
        "name": name,
        "up": True,
        "kubeconfig": str(cluster.kubeconfig),
        "run_dir": str(cluster.run_dir),
        "nodes": len(layout.node_names(_path_of_nodes(cluster))),
        "process": cluster.init_pid,
    }


def _path_of_nodes(cluster: Cluster) -> Path:
    return Layout(cluster.run_dir).nodes


def _explain_death(files: Layout) -> None:
    """Raise why a cluster that nobody stopped is not up any more."""
    if sandbox.read_identity(files) is None:
        return
    raise Problem(f"{sandbox.obituary(files)} (`python -m e2e.cluster up` starts it anew)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in COMMANDS.items():
        lines = (function.__doc__ or "").splitlines()
        command = commands.add_parser(name, help=lines[0], description=lines[0])
        command.add_argument("--name", type=_name, default=DEFAULT_NAME, help="of the cluster")
        if name == "up":
            command.add_argument("--nodes", type=_number(MOST_NODES), help="how many (2)")
            command.add_argument("--gpus", type=_number(MOST_GPUS), help="GPUs per node (4)")
        if name == "status":
            command.add_argument("-o", "--output", choices=("table", "json"), default="table")
        if name == "exec":
            command.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name for a cluster; use up to 32 small letters, digits and hyphens"
        )
    return text


def _number(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {most}")
        return int(text)

    return number


def _print(text: str) -> None:
    print(text)  # noqa: T201 - the result of a command
