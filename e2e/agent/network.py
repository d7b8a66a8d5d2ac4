"""A network for each pod: a namespace, a veth pair, one address.

Point to point: the pod's address on one side, the gateway's on the other, a route each way. No
bridge, because replies between two pods of a Service would bypass the translation on it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from e2e.agent import syscalls


@dataclass(frozen=True)
class PodNetwork:
    """A pod's place in the network; `path` names its namespace while the agent holds it open."""

    address: str
    device: str
    descriptor: int

    @property
    def path(self) -> str:
        """A path by which another process of the sandbox can open the namespace."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"


def inside_commands(address: str, gateway: str, device: str, outside: str) -> str:
    """`ip -batch` lines for the pod's namespace; `outside` names the sandbox's."""
    return (
        "link set lo up\n"
        f"link add eth0 type veth peer name {device} netns {outside}\n"
        f"addr add {address}/32 dev eth0\n"
        "link set eth0 up\n"
        f"route add {gateway} dev eth0 scope link\n"
        f"route add default via {gateway} dev eth0\n"
    )


def outside_commands(address: str, gateway: str, device: str) -> str:
    """`ip -batch` lines for the sandbox's namespace."""
    return f"link set {device} up\nroute replace {address} dev {device} scope link src {gateway}\n"


class Networks:
    """Gives pods addresses and takes them back; an address rests as long as it can."""

    def __init__(self, pod_cidr: str, gateway: str) -> None:
        self._hosts = ipaddress.ip_network(pod_cidr)
        self._gateway = gateway
        self._used: set[str] = set()
        self._next = int(ipaddress.ip_address(gateway))

    async def create(self) -> PodNetwork:
        """A connected network; raises OSError with what `ip` said."""
        address = self._address()
        device = "v" + address.replace(".", "x")[-13:]
        try:
            descriptor = await asyncio.to_thread(self._make, address, device)
        except BaseException:
            self._used.discard(address)
            raise
        return PodNetwork(address, device, descriptor)

    def destroy(self, network: PodNetwork) -> None:
        """Close the namespace: with its last process gone the kernel takes it and the veth."""
        os.close(network.descriptor)
        self._used.discard(network.address)

    def _address(self) -> str:
        size = self._hosts.num_addresses
        first = int(self._hosts.network_address)
        for _ in range(size):
            self._next = first + (self._next + 1 - first) % size
            text = str(ipaddress.ip_address(self._next))
            usable = self._next % 256 not in {0, 255} and text != self._gateway
            if usable and text not in self._used:
                self._used.add(text)
                return text
        raise OSError("no pod address is left")

    def _make(self, address: str, device: str) -> int:
        """In a thread of its own: namespaces belong to threads, and this one ends here."""
        result: list[int | OSError] = []

        def work() -> None:
            try:
                result.append(self._namespace(address, device))
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        made = result[0]
        if isinstance(made, OSError):
            raise made
        _ip(outside_commands(address, self._gateway, device))
        return made

    def _namespace(self, address: str, device: str) -> int:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # As container runtimes do: a program without privileges may listen on port 80.
            Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0", "ascii")
            outside = f"/proc/{os.getpid()}/ns/net"
            _ip(inside_commands(address, self._gateway, device, outside))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def _ip(commands: str) -> None:
    done = subprocess.run(
        ["ip", "-batch", "-"], input=commands, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"ip: {done.stderr.strip()}")
