"""What the local cluster needs of the operating system: a few commands of Debian packages."""

import os
import shutil
import subprocess
from collections.abc import Iterable

from e2e import fetch
from e2e.cluster import namespaces
from e2e.problem import Problem


def ensure() -> None:
    """Prove that a sandbox can be made here; root on Debian gets what is missing installed."""
    env = namespaces.environment(os.environ)
    missing = namespaces.missing_commands(env["PATH"])
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install(missing.values())
    namespaces.require(env)


def install(packages: Iterable[str]) -> None:
    """Install Debian packages; the package lists are fetched where they know none of them."""
    names = sorted(set(packages))
    fetch.say(f"installing {' '.join(names)} by apt-get")
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *names]
    if _apt(command).returncode:
        _apt(["apt-get", "update", "-q"])
        done = _apt(command)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Problem(
                f"`apt-get install {' '.join(names)}` failed ({lines[-1]}); install these by "
                f"hand; {namespaces.WAY_OUT}"
            )


def _apt(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
