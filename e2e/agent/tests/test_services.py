"""Rules and names from Services and EndpointSlices."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from e2e.agent import services
from e2e.agent.services import Route

if TYPE_CHECKING:
    from pathlib import Path


def a_service(name: str = "chat", address: str = "10.0.0.9", **port: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", **port}]
    return {
        "metadata": {"name": name, "namespace": "llm"},
        "spec": {"clusterIP": address, "ports": ports},
    }


def a_slice(*endpoints: dict[str, Any], service: str = "chat") -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{service}-x",
            "namespace": "llm",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def at(address: str, *, ready: bool | None = True, **more: str) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {"addresses": [address], "conditions": conditions, **more}


def test_a_port_leads_to_the_ready_endpoints_of_the_same_port_name() -> None:
    found = services.routes(
        [a_service()],
        [a_slice(at("10.244.0.3"), at("10.244.0.2", ready=None), at("10.244.0.4", ready=False))],
    )
    targets = (("10.244.0.2", 8000), ("10.244.0.3", 8000))
    assert found == [Route("10.0.0.9", "tcp", 80, targets)]
    other = services.routes([a_service(name="chat", protocol="UDP")], [])
    assert other == [Route("10.0.0.9", "udp", 80, ())]


def test_a_headless_service_has_no_route() -> None:
    assert services.routes([a_service(address="None")], [a_slice(at("10.244.0.2"))]) == []


def test_a_service_without_endpoints_refuses_and_the_others_translate() -> None:
    text = services.ruleset(
        [
            Route("10.0.0.9", "tcp", 80, (("10.244.0.2", 8000), ("10.244.0.3", 8000))),
            Route("10.0.0.10", "tcp", 81, ()),
            Route("10.0.0.11", "udp", 53, ()),
        ]
    )
    assert (
        "ip daddr 10.0.0.9 tcp dport 80 dnat ip to numgen random mod 2 map "
        "{ 0 : 10.244.0.2 . 8000, 1 : 10.244.0.3 . 8000 }"
    ) in text
    assert "ip daddr 10.0.0.10 tcp dport 81 reject with tcp reset" in text
    assert "ip daddr 10.0.0.11 udp dport 53 reject with icmp port-unreachable" in text
    assert "ip saddr 10.244.0.2 ip daddr 10.244.0.2 masquerade" in text


def test_names_have_every_form_and_short_ones_count_in_their_namespace_only() -> None:
    known = services.names([a_service()], [])
    inside = services.hosts(known, {"pod-0": "10.244.0.5"}, "llm")
    assert "10.244.0.5 pod-0\n" in inside
    assert "10.0.0.9 chat.llm.svc.cluster.local chat.llm.svc chat.llm chat\n" in inside
    outside = services.hosts(known, {}, "other")
    assert outside.endswith("10.0.0.9 chat.llm.svc.cluster.local chat.llm.svc chat.llm\n")


def test_a_headless_service_is_named_by_its_endpoints() -> None:
    known = services.names(
        [a_service(address="None")], [a_slice(at("10.244.0.2", hostname="chat-0"))]
    )
    assert known == [("10.244.0.2", "llm", "chat"), ("10.244.0.2", "llm", "chat-0.chat")]


def test_a_rewritten_file_keeps_its_inode_and_loses_its_tail(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    services.write_in_place(path, "a longer text\n")
    inode = path.stat().st_ino
    services.write_in_place(path, "short\n")
    assert (path.stat().st_ino, path.read_text()) == (inode, "short\n")


@pytest.mark.cluster
def test_nft_takes_the_rules() -> None:
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")
    assert nft is not None, "nftables is not installed; `python -m e2e.prepare` says how"
    routes = [
        Route("10.0.0.9", "tcp", 80, (("10.244.0.2", 8000),)),
        Route("10.0.0.10", "udp", 81, ()),
    ]
    text = services.ruleset(routes)
    command = ["unshare", "--map-root-user", "--net", nft, "-c", "-f", "-"]
    subprocess.run(command, input=text, text=True, check=True)
