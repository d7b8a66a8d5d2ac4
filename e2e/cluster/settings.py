"""The files that the components read: tokens, kubeconfigs, audit policy, configurations."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e import paths
from e2e.cluster import addresses
from e2e.cluster.layout import Layout, write_json

ACCOUNTS: Mapping[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}
"""Name of the kubeconfig -> user and group. RBAC's default bindings name the two system users."""


def write_all(layout: Layout, bin_dir: str, proxy_port: int, rootless: bool) -> None:
    """Write every settings file of a run; the keys must exist already."""
    tokens = {name: secrets.token_urlsafe(24) for name in ACCOUNTS}
    rows = [
        f'{tokens[name]},{user},{name},"{group}"' if group else f"{tokens[name]},{user},{name}"
        for name, (user, group) in ACCOUNTS.items()
    ]
    tokens_file = layout.pki / "tokens.csv"
    tokens_file.touch(mode=0o600)
    tokens_file.write_text("\n".join(rows) + "\n")
    ca = str(layout.pki / "ca.crt")
    proxy = f"http://127.0.0.1:{proxy_port}"
    write_json(layout.kubeconfig, kubeconfig(ca, tokens["admin"], proxy))
    for name in ("controller-manager", "scheduler"):
        write_json(layout.pki / f"{name}.kubeconfig", kubeconfig(ca, tokens[name]))
    write_json(layout.run_dir / "audit-policy.json", AUDIT_POLICY)
    write_json(layout.run_dir / "scheduler.json", scheduler(layout))
    write_json(layout.agent, agent(layout, tokens["admin"], bin_dir, rootless))


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Every request, who asked, what for and the answer's code; bodies stay out."""


def kubeconfig(ca: str, token: str, proxy: str | None = None) -> dict[str, Any]:
    """A kubeconfig of one user; with `proxy` it reaches the sandbox from the host."""
    server = {"server": addresses.API_SERVER, "certificate-authority": ca}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "local", "cluster": {**server, **({"proxy-url": proxy} if proxy else {})}}
        ],
        "users": [{"name": "local", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }


def scheduler(layout: Layout) -> dict[str, Any]:
    """The configuration of the cluster's own kube-scheduler."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(layout.pki / "scheduler.kubeconfig")},
    }


def agent(layout: Layout, token: str, bin_dir: str, rootless: bool) -> dict[str, Any]:
    """The node agent's configuration."""
    return {
        "server": addresses.API_SERVER,
        "ca": str(layout.pki / "ca.crt"),
        "token": token,
        "kubelet_cert": str(layout.pki / "kubelet.crt"),
        "kubelet_key": str(layout.pki / "kubelet.key"),
        "client_ca": str(layout.pki / "kubelet-client-ca.crt"),
        "nodes_file": str(layout.nodes),
        "images": [str(paths.checkout() / "e2e" / "images.yaml")],
        "run_dir": str(layout.run_dir),
        "gateway": addresses.GATEWAY,
        "pod_cidr": addresses.POD_CIDR,
        "service_cidr": addresses.SERVICE_CIDR,
        "kubelet_port": addresses.KUBELET_PORT,
        "rootless": rootless,
        "checkout": str(paths.checkout()),
        "bin_dir": bin_dir,
        "models": str(paths.cache() / "models"),
        "masks": [str(path) for path in secret_folders(layout)],
        "venv": str(paths.venv()),
    }


def secret_folders(layout: Layout) -> tuple[Path, ...]:
    """What no pod may see: the run directories of this and of every other cluster, ~/.kube."""
    candidates = (layout.run_dir.parent, paths.clusters(), Path.home() / ".kube")
    return tuple(dict.fromkeys(path.resolve() for path in candidates if path.is_dir()))
