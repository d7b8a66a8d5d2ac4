"""What the engines say of themselves: each pod's metrics, read every few seconds.

Only two facts are taken: whether our scheduler decides in that engine, and which policy is in force
there. Both are on port `metrics` of the pod, not of the Service, because each replica has its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tenantry_api import names
from tenantry_operator.workqueue import Key

ACTIVE = "tenantry_engine_active"
POLICY_INFO = "tenantry_policy_info"
UNREACHABLE = "Unreachable"
SCRAPE_SECONDS = 2.0
STALE_SECONDS = 30.0
PARALLEL = 32


@dataclass(frozen=True)
class Engine:
    """One engine: whether our scheduler decides (None = not known), why, and the hash in force."""

    active: bool | None = None
    reason: str = UNREACHABLE
    policy_hash: str = ""


def read(text: str) -> Engine:
    """What a metrics page says. A page without our metrics is an engine that is not known.

    Raises ValueError on a page that is no metrics page.
    """
    active, reason, policy_hash = None, UNREACHABLE, ""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_INFO and sample.value:
                policy_hash = sample.labels.get("hash", "")
            if sample.name == ACTIVE and not active:
                active, reason = bool(sample.value), sample.labels.get("reason", "")
    return Engine(active, reason, policy_hash)


@dataclass
class _Seen:
    engine: Engine | None  # None: has not answered yet, and is not overdue
    at: float


@dataclass
class Engines:
    """The newest answer of each pod of each policy."""

    session: aiohttp.ClientSession
    clock: Callable[[], float]
    port: int = names.PORT_METRICS
    _pods: dict[Key, dict[str, str]] = field(default_factory=dict)
    _seen: dict[Key, dict[str, _Seen]] = field(default_factory=dict)

    def watch(self, key: Key, addresses: Mapping[str, str]) -> None:
        """From now on read these pods of the policy: pod uid -> address."""
        self._pods[key] = dict(addresses)
        seen, now = self._seen.get(key, {}), self.clock()
        self._seen[key] = {uid: seen.get(uid) or _Seen(None, now) for uid in addresses}

    def forget(self, key: Key) -> None:
        """The policy is gone."""
        self._pods.pop(key, None)
        self._seen.pop(key, None)

    def of(self, key: Key) -> dict[str, Engine]:
        """The engines of a policy by pod uid; one that was only just asked first is absent."""
        found = self._seen.get(key, {})
        return {uid: seen.engine for uid, seen in found.items() if seen.engine is not None}

    async def scrape(self) -> set[Key]:
        """Read every pod once. Returns the policies of which something changed."""
        limit = asyncio.Semaphore(PARALLEL)
        todo = [(key, uid, ip) for key, pods in self._pods.items() for uid, ip in pods.items()]
        found = await asyncio.gather(*(self._fetch(limit, ip) for _, _, ip in todo))
        now = self.clock()
        return {
            key
            for (key, uid, _), engine in zip(todo, found, strict=True)
            if self._note(key, uid, engine, now)
        }

    def _note(self, key: Key, uid: str, engine: Engine | None, now: float) -> bool:
        if uid not in self._pods.get(key, {}):
            return False  # gone while it was being read
        old = self._seen[key][uid]
        if engine is None and now - old.at <= STALE_SECONDS:
            return False
        at = old.at if engine is None else now
        self._seen[key][uid] = _Seen(engine or Engine(), at)
        return self._seen[key][uid].engine != old.engine

    async def _fetch(self, limit: asyncio.Semaphore, address: str) -> Engine | None:
        host = f"[{address}]" if ":" in address else address
        timeout = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
        url = f"http://{host}:{self.port}/metrics"
        try:
            async with limit, self.session.get(url, timeout=timeout) as answer:
                return read(await answer.text()) if answer.status == 200 else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
