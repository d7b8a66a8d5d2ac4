"""The processes of the control plane: their commands and how each shows that it is ready."""

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.cluster import addresses
from e2e.cluster.layout import Layout, Plan

SERVER = "https://127.0.0.1"


@dataclass(frozen=True)
class Component:
    """One process: the name of its log, its command, and what answers 200 once it is ready."""

    name: str
    command: tuple[str, ...]
    health: str | None


def stages(plan: Plan, layout: Layout) -> tuple[tuple[Component, ...], ...]:
    """Who starts together, in order: each stage waits for the one before."""
    return (
        (_etcd(plan, layout),),
        (_api_server(plan, layout),),
        (_controller_manager(plan, layout), _scheduler(plan, layout)),
        (Component("agent", plan.agent, None),),
    )


def _command(program: str, plan: Plan, flags: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    return (f"{plan.bin_dir}/{program}", *(f"--{name}={value}" for name, value in flags))


def _etcd(plan: Plan, layout: Layout) -> Component:
    client = f"http://127.0.0.1:{addresses.ETCD_PORT}"
    peer = f"http://127.0.0.1:{addresses.ETCD_PEER_PORT}"
    flags = (
        ("name", "etcd"),
        ("data-dir", layout.run_dir / "etcd"),
        ("listen-client-urls", client),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer),
        ("initial-advertise-peer-urls", peer),
        ("initial-cluster", f"etcd={peer}"),
        ("unsafe-no-fsync", "true"),  # the data is thrown away with the run
    )
    return Component("etcd", _command("etcd", plan, flags), f"{client}/health")


def _api_server(plan: Plan, layout: Layout) -> Component:
    pki = layout.pki
    flags = (
        ("etcd-servers", f"http://127.0.0.1:{addresses.ETCD_PORT}"),
        ("bind-address", "0.0.0.0"),  # noqa: S104 - the sandbox's own network
        ("advertise-address", addresses.GATEWAY),
        ("secure-port", addresses.API_PORT),
        ("endpoint-reconciler-type", "lease"),  # makes the EndpointSlice of `kubernetes`
        ("service-cluster-ip-range", addresses.SERVICE_CIDR),
        ("tls-cert-file", pki / "server.crt"),
        ("tls-private-key-file", pki / "server.key"),
        ("client-ca-file", pki / "ca.crt"),
        ("token-auth-file", pki / "tokens.csv"),
        ("authorization-mode", "Node,RBAC"),
        ("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        ("service-account-key-file", pki / "service-accounts.pub"),
        ("service-account-signing-key-file", pki / "service-accounts.key"),
        ("requestheader-client-ca-file", pki / "front-proxy-ca.crt"),
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ("kubelet-certificate-authority", pki / "ca.crt"),
        ("kubelet-client-certificate", pki / "kubelet-client.crt"),
        ("kubelet-client-key", pki / "kubelet-client.key"),
        ("kubelet-preferred-address-types", "InternalIP"),
        ("audit-policy-file", layout.run_dir / "audit-policy.json"),
        ("audit-log-path", layout.audit_log),
        ("audit-log-mode", "blocking"),  # a line is on disk before the answer leaves
        ("audit-log-maxsize", 4096),  # MB; a test reads the file whole, so it never rotates
        ("allow-privileged", "true"),
        ("profiling", "false"),
    )
    command = _command("kube-apiserver", plan, flags)
    return Component("kube-apiserver", command, f"{SERVER}:{addresses.API_PORT}/readyz")


def _controller_manager(plan: Plan, layout: Layout) -> Component:
    pki = layout.pki
    flags = (
        *_manager("controller-manager", addresses.CONTROLLER_MANAGER_PORT, layout),
        ("kubeconfig", pki / "controller-manager.kubeconfig"),
        ("use-service-account-credentials", "true"),  # else every controller is forbidden
        ("service-account-private-key-file", pki / "service-accounts.key"),
        ("root-ca-file", pki / "ca.crt"),
        ("cluster-signing-cert-file", pki / "ca.crt"),
        ("cluster-signing-key-file", pki / "ca.key"),
        ("leader-elect", "false"),
        # The default limits are what makes the first ServiceAccount late.
        ("kube-api-qps", 500),
        ("kube-api-burst", 1000),
    )
    return Component(
        "kube-controller-manager",
        _command("kube-controller-manager", plan, flags),
        f"{SERVER}:{addresses.CONTROLLER_MANAGER_PORT}/healthz",
    )


def _scheduler(plan: Plan, layout: Layout) -> Component:
    flags = (
        *_manager("scheduler", addresses.SCHEDULER_PORT, layout),
        ("config", layout.run_dir / "scheduler.json"),
    )
    return Component(
        "kube-scheduler",
        _command("kube-scheduler", plan, flags),
        f"{SERVER}:{addresses.SCHEDULER_PORT}/healthz",
    )


def _manager(account: str, port: int, layout: Layout) -> tuple[tuple[str, object], ...]:
    kubeconfig = layout.pki / f"{account}.kubeconfig"
    return (
        ("authentication-kubeconfig", kubeconfig),
        ("authorization-kubeconfig", kubeconfig),
        ("bind-address", "127.0.0.1"),
        ("secure-port", port),
        ("tls-cert-file", layout.pki / "server.crt"),
        ("tls-private-key-file", layout.pki / "server.key"),
        ("profiling", "false"),
    )
