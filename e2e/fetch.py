"""Packages of the Python package index, unpacked into a folder without installing them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from e2e import paths
from e2e.problem import Problem


def say(text: str) -> None:
    """One line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress of a command


def unpack(requirement: str, target: Path, *options: str) -> None:
    """Lay the files of one wheel (`name==version`, without what it requires) into `target`.

    `options` are of uv or pip, whichever is at hand; both know `--no-cache`.
    """
    done = subprocess.run(
        [*_installer(), "--no-deps", "--quiet", *options, "--target", str(target), requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Problem(
            f"{requirement} could not be fetched ({last}); is the package index reachable?"
        )


def _installer() -> list[str]:
    uv = shutil.which("uv") or str(paths.cache() / "uv" / "bin" / "uv")
    if os.access(uv, os.X_OK):
        return [uv, "pip", "install", "--python", sys.executable]
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip:
        return [pip, "install", "--disable-pip-version-check"]
    raise Problem("neither uv nor pip is at hand to fetch packages; run `make setup` first")


@contextmanager
def into(target: Path) -> Iterator[Path]:
    """A scratch folder that becomes `target` at the end, all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def lock(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock file `path`; say `waiting` when somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            say(waiting)
            flock(file, LOCK_EX)
        yield


def need_room(folder: Path, megabytes: int, what: str) -> None:
    """Refuse to begin `what` where `folder`'s disk cannot hold it."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < megabytes:
        raise Problem(
            f"{what} needs {megabytes} MB and {free} MB are free in {folder}; make room there"
        )
