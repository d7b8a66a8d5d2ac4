"""The addresses and ports inside a sandbox: fixed, since every sandbox has a network of its own."""

from ipaddress import ip_network

GATEWAY = "10.244.0.1"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.0.0.0/16"
FIRST_SERVICE = "10.0.0.1"

ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
API_PORT = 6443
KUBELET_PORT = 10250
CONTROLLER_MANAGER_PORT = 10257
SCHEDULER_PORT = 10259

API_SERVER = f"https://{GATEWAY}:{API_PORT}"
REACHABLE = (ip_network(POD_CIDR), ip_network(SERVICE_CIDR))
"""What the proxy connects to: pods, Services and the API server, never the loopback device."""
