"""Private network, mount and pid namespaces: whether they can be had, and how to enter them."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.problem import Problem

PACKAGES: Mapping[str, str] = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "nft": "nftables",
}
"""Command -> the Debian package that brings it."""

WAY_OUT = "without a local cluster `make demo-engine` shows the same table"
SYSTEM_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PROBE = "ip link set lo up && nft list tables"


def rootless() -> bool:
    """Whether a user namespace is needed: everybody but root needs one."""
    return os.geteuid() != 0


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` as it should be inside: system commands found, no way out by a proxy."""
    kept = {key: value for key, value in base.items() if key.lower() not in PROXIES}
    kept.pop("KUBECONFIG", None)
    there = kept.get("PATH", "/usr/bin:/bin").split(":")
    kept["PATH"] = ":".join([*there, *(path for path in SYSTEM_PATHS if path not in there)])
    return kept


def missing_commands(path: str) -> dict[str, str]:
    """The commands of `PACKAGES` that `path` does not have, with their packages."""
    return {
        name: package for name, package in PACKAGES.items() if not shutil.which(name, path=path)
    }


def create() -> list[str]:
    """The command prefix that runs what follows as process 1 of new namespaces."""
    user = ["--user", "--map-root-user"] if rootless() else []
    return [
        "unshare",
        *user,
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ]


def enter(pid: int, folder: Path) -> list[str]:
    """The command prefix that runs what follows inside, in `folder`; it dies with the prefix."""
    user = ["--user", "--preserve-credentials"] if rootless() else []
    return [
        "nsenter",
        f"--target={pid}",
        *user,
        "--mount",
        "--net",
        "--pid",
        "--",
        "setpriv",
        "--pdeathsig=KILL",
        "env",
        f"--chdir={folder}",
    ]


def require(env: Mapping[str, str]) -> None:
    """Prove that this machine can make a sandbox, or say in one sentence what it lacks."""
    missing = missing_commands(env["PATH"])
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise Problem(
            f"the local cluster needs {', '.join(missing)}: `apt-get install {packages}` brings "
            f"what is missing; {WAY_OUT}"
        )
    done = subprocess.run(
        [*create(), "sh", "-c", PROBE], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Problem(forbidden(done.stderr))


def forbidden(said: str) -> str:
    """The sentence for a machine that refuses namespaces or packet translation."""
    lines = said.strip().splitlines() or ["no message"]
    return (
        f"this machine does not let {_who()} make the private namespaces of the local cluster "
        f"({lines[-1]}); run it as root outside a container; {WAY_OUT}"
    )


def _who() -> str:
    return "a plain user" if rootless() else "root"


def run_with(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Run one set-up command; its standard error becomes the sentence where it fails."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"`{' '.join(command)}` failed inside the sandbox: {done.stderr.strip()}")
    return done.stdout
