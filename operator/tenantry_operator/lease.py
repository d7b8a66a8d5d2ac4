"""Who leads: one operator at a time works, by a Lease of its own in the release namespace.

The decision is a pure function of the Lease and the time; `hold` asks, decides and writes. Two
replicas never write at once, because a Lease is replaced only at the version that was read.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from tenantry_api import names
from tenantry_operator.cluster import LEASE, ApiError, Cluster, Manifest

log = logging.getLogger(__name__)

LEASE_NAME = names.FIELD_MANAGER
DURATION = timedelta(seconds=15)
RENEW_SECONDS = 5.0
_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class Move(StrEnum):
    """What a candidate does about the Lease."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


class LeaseLostError(Exception):
    """Another operator leads; this one must stop at once."""


@dataclass(frozen=True)
class Candidate:
    """Who asks, and for which Lease."""

    namespace: str
    identity: str


def decide(lease: Mapping[str, Any] | None, identity: str, now: datetime) -> Move:
    """What `identity` may do about the Lease at `now`.

    A restarted container keeps its pod's name and so goes on at once, without waiting for its own
    Lease to run out.
    """
    if lease is None:
        return Move.CREATE
    spec = lease.get("spec", {})
    if spec.get("holderIdentity") == identity:
        return Move.RENEW
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return Move.TAKE
    seconds = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    renewed = datetime.strptime(spec["renewTime"], _FORMAT).replace(tzinfo=UTC)
    return Move.TAKE if now > renewed + seconds else Move.WAIT


def written(lease: Mapping[str, Any] | None, who: Candidate, now: datetime) -> Manifest:
    """The Lease as `who` writes it at `now`."""
    old = dict(lease.get("spec", {})) if lease else {}
    new_holder = old.get("holderIdentity") != who.identity
    spec = {
        "holderIdentity": who.identity,
        "leaseDurationSeconds": int(DURATION.total_seconds()),
        "acquireTime": now.strftime(_FORMAT) if new_holder else old.get("acquireTime"),
        "renewTime": now.strftime(_FORMAT),
        "leaseTransitions": int(old.get("leaseTransitions", -1)) + (1 if new_holder else 0),
    }
    meta = dict(lease["metadata"]) if lease else {"name": LEASE_NAME, "namespace": who.namespace}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}


def released(lease: Mapping[str, Any]) -> Manifest:
    """The Lease without a holder, so that the next candidate need not wait."""
    return {**lease, "spec": {**lease.get("spec", {}), "holderIdentity": ""}}


async def _try(cluster: Cluster, who: Candidate, now: datetime) -> bool:
    lease = await cluster.get(LEASE, who.namespace, LEASE_NAME)
    move = decide(lease, who.identity, now)
    if move is Move.WAIT:
        return False
    write = cluster.create if move is Move.CREATE else cluster.replace
    try:
        await write(LEASE, written(lease, who, now))
    except ApiError as error:
        if error.status == 409:
            return False  # another candidate was faster
        raise
    return True


async def acquire(cluster: Cluster, who: Candidate, clock: Callable[[], datetime]) -> None:
    """Return once `who` leads."""
    told = False
    while not await _try(cluster, who, clock()):
        if not told:
            log.info("another operator leads; waiting for the lease %s", LEASE_NAME)
            told = True
        await asyncio.sleep(RENEW_SECONDS / 2)
    log.info("leading as %s", who.identity)


async def hold(cluster: Cluster, who: Candidate, clock: Callable[[], datetime]) -> None:
    """Renew for ever. Raises `LeaseLostError` when another leads or the API stays away too long."""
    renewed = clock()
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            if not await _try(cluster, who, clock()):
                raise LeaseLostError(f"another operator took the lease {LEASE_NAME}")
            renewed = clock()
        except ApiError as error:
            if clock() - renewed >= DURATION:
                message = f"the lease {LEASE_NAME} could not be renewed: {error.message}"
                raise LeaseLostError(message) from error
            log.warning("lease not renewed, trying again: %s", error.message)


async def release(cluster: Cluster, who: Candidate) -> None:
    """Give the Lease away if `who` holds it; a failure costs the successor only a wait."""
    try:
        lease = await cluster.get(LEASE, who.namespace, LEASE_NAME)
        if lease and lease.get("spec", {}).get("holderIdentity") == who.identity:
            await cluster.replace(LEASE, released(lease))
    except ApiError as error:
        log.warning("lease not released: %s", error.message)
