"""Which processes of a cluster live: read from /proc, told apart by their start time."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
POLL_SECONDS = 0.02
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Process:
    """A process as nobody else's: its id and when it started, in clock ticks since boot."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether any thread of it still runs; one that only waits to be reaped does not."""
        found = _stat(self.pid)
        if found is None or found[2] != self.started:
            return False
        return found[0] != "Z" or _threads(self.pid) > 1


def find(pid: int) -> Process | None:
    """The process that has this id now."""
    found = _stat(pid)
    return None if found is None else Process(pid, found[2])


def child(pid: int) -> Process | None:
    """The first child of a process."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            found = _stat(int(entry.name))
            if found is not None and found[1] == pid:
                return Process(int(entry.name), found[2])
    return None


def boot() -> str:
    """Names this boot of the machine; process ids of another boot mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def kill(process: Process) -> None:
    """SIGKILL, if it still is that process."""
    if process.alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def wait_gone(process: Process, seconds: float = STOP_SECONDS) -> bool:
    """Wait until the process has ended; False when it still lives after `seconds`."""
    deadline = time.monotonic() + seconds
    while process.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _stat(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start time of a process."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def _threads(pid: int) -> int:
    """How many threads it has. The first one may be a zombie while the others still end, and it
    is the last of process 1 that ends the rest of its namespace."""
    try:
        return sum(1 for _ in (PROC / str(pid) / "task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0
