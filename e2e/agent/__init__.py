"""The node agent of the local cluster: what a kubelet, a container runtime and a kube-proxy do,
for pods that run as processes of this machine.

Belongs here: everything between the API server and a running process. The control plane and the
namespaces around it belong to `e2e.cluster`; what an image means here stands in `e2e/images.yaml`.

Read in this order: `main` and `agent` (what is watched), `nodes`, `pods` (one worker per pod),
`supervise` (one loop per container), `status`; then what a container is made of: `images`,
`environment`, `volumes`, `network`, `container` (this side of the fork), `runner`, `rootfs` and
`syscalls` (the other side); `probes`, `restarts`, `resources` decide; `services` routes,
`kubelet_server` answers `kubectl logs` and `kubectl exec`.
"""
