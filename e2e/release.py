"""The chart as a release in a cluster: install it and wait until its scheduler leads."""

import json

from e2e import paths
from e2e.cluster.handle import Cluster
from e2e.poll import until

RELEASE = "tenantry"
NAMESPACE = "tenantry-system"
LEASE = "tenantry-scheduler"
INSTALL_SECONDS = 120


def is_installed(cluster: Cluster) -> bool:
    """Whether the release is there already, as it may be in a cluster of somebody else's."""
    listed = cluster.helm("list", "--namespace", NAMESPACE, "--output", "json")
    return any(entry["name"] == RELEASE for entry in json.loads(listed))


def install(cluster: Cluster, *flags: str) -> None:
    """Install the chart of this checkout and wait until it works; `flags` are helm's."""
    cluster.helm(
        "install",
        RELEASE,
        str(paths.checkout() / "charts" / "tenantry"),
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        "--wait",
        f"--timeout={INSTALL_SECONDS}s",
        *flags,
    )
    wait_for_leader(cluster)


def wait_for_leader(cluster: Cluster, seconds: float = 60.0) -> str:
    """The holder of the scheduler's lease.

    A scheduler pod shows Ready without ever leading when a right to its lease is missing.
    """
    return until(f"a holder of the lease {LEASE}", lambda: _holder(cluster), seconds)


def _holder(cluster: Cluster) -> str | None:
    found = cluster.kubectl(
        "get", "lease", LEASE, f"--namespace={NAMESPACE}", "--ignore-not-found", "--output=json"
    )
    if not found:
        return None
    holder: str | None = json.loads(found)["spec"].get("holderIdentity")
    return holder
