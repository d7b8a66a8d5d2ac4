"""Which processes on the host are a pod's: the agent's notes, translated to the host's ids."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.processes import PROC


@dataclass(frozen=True)
class Seen:
    """One process: its parent on the host, and its id in each pid namespace from here inwards."""

    parent: int
    ids: tuple[int, ...]


def seen() -> dict[int, Seen]:
    """Every process of the machine by its id on the host."""
    found = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = parse((entry / "status").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def parse(status: str) -> Seen:
    """The text of /proc/PID/status."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Seen(int(fields["PPid"]), tuple(int(part) for part in fields["NSpid"].split()))


def below(table: Mapping[int, Seen], root: int) -> list[int]:
    """`root` and all that descends from it, in the order of their ids."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in table:
            found.append(pid)
        waiting.extend(children.get(pid, ()))
    return sorted(found)


def containers(
    table: Mapping[int, Seen], init: int, run_dir: Path, namespace: str, pod: str
) -> dict[str, int]:
    """Container -> the host's id of its first process, for those that run now."""
    noted: dict[int, str] = {}
    for file in sorted((run_dir / "pods").glob(f"{namespace}_{pod}_*/state.json")):
        running = json.loads(file.read_text())["containers"]
        noted.update({entry["pid"]: name for name, entry in running.items()})
    return {
        noted[table[pid].ids[1]]: pid
        for pid in below(table, init)
        if len(table[pid].ids) > 1 and table[pid].ids[1] in noted
    }
