"""Follows Services and EndpointSlices and keeps nft and the hosts files as they say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from e2e.agent import services as rules
from e2e.agent import syscalls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from e2e.agent.api import Api

logger = logging.getLogger(__name__)

Object = dict[str, Any]
SETTLE_SECONDS = 0.03


class Routing:
    """The Services of the cluster, in force. renamed: called after names have changed."""

    def __init__(self, run_dir: Path) -> None:
        self._hosts = run_dir / "hosts"
        self._services: dict[str, Object] = {}
        self._slices: dict[str, Object] = {}
        self._dirty = asyncio.Event()
        self._names: list[tuple[str, str, str]] | None = None
        self._rules = ""

    def services(self) -> list[Object]:
        """Every Service."""
        return list(self._services.values())

    def hosts(self, own: dict[str, str], namespace: str) -> str:
        """The hosts file of a pod."""
        return rules.hosts(self._names or [], own, namespace)

    async def run(self, api: Api, renamed: Callable[[], None]) -> None:
        """Follow for ever."""
        self._mount_hosts()
        slices = "/apis/discovery.k8s.io/v1/endpointslices"
        await asyncio.gather(
            api.follow("/api/v1/services", *self._handlers(self._services)),
            api.follow(slices, *self._handlers(self._slices)),
            self._keep(renamed),
        )

    def _handlers(
        self, store: dict[str, Object]
    ) -> tuple[Callable[[Object], None], Callable[[Object], None]]:
        def changed(item: Object) -> None:
            store[item["metadata"]["uid"]] = item
            self._dirty.set()

        def gone(item: Object) -> None:
            store.pop(item["metadata"]["uid"], None)
            self._dirty.set()

        return changed, gone

    async def _keep(self, renamed: Callable[[], None]) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            text = rules.ruleset(rules.routes(self._services.values(), self._slices.values()))
            if text != self._rules and await asyncio.to_thread(_load, text):
                self._rules = text
            names = rules.names(self._services.values(), self._slices.values())
            if names != self._names:
                self._names = names
                own = {socket.gethostname(): "127.0.0.1"}
                rules.write_in_place(self._hosts, rules.hosts(names, own, None))
                renamed()
            await asyncio.sleep(SETTLE_SECONDS)

    def _mount_hosts(self) -> None:
        """Show our hosts file to everything that runs in the sandbox beside the pods."""
        rules.write_in_place(
            self._hosts, rules.hosts([], {socket.gethostname(): "127.0.0.1"}, None)
        )
        with contextlib.suppress(FileNotFoundError):
            if not self._hosts.samefile("/etc/hosts"):
                syscalls.mount(str(self._hosts), "/etc/hosts", flags=syscalls.MS_BIND)


def _load(text: str) -> bool:
    done = subprocess.run(
        ["nft", "-f", "-"], input=text, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        logger.error("nft refused the rules: %s", done.stderr.strip()[:500])
    return done.returncode == 0
