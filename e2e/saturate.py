"""Keeps tenants always waiting at one endpoint and counts what each receives.

`python -m e2e.saturate --url URL --tenants gold,free --connections 24 --seconds 60` prints one
JSON line a second: `{"t": seconds since the start, "tokens": {tenant: output tokens so far}}`. A
tenant is a name, or a name with a shape of its own: `gold:384/8`, tokens in and out of every
request. The counts are the client's own, so they say nothing that the engine would like to be true.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tenantry_bench.client import Client, Outcome, Record
from tenantry_bench.plan import TOKEN_IDS, Request

HEADER = "X-Tenant-ID"
TIMEOUT = 300.0


@dataclass(frozen=True)
class Shape:
    """Tokens in and out of every request."""

    prompt: int
    output: int


@dataclass
class Count:
    """Tokens that one tenant has received.

    A request that has ended counts with all of its tokens: a busy server may put two into one
    event.
    """

    ended: int = 0
    failed: int = 0
    live: dict[int, Record] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.ended + sum(len(record.stream.token_times) for record in self.live.values())

    def end(self, slot: int) -> None:
        record = self.live.pop(slot)
        whole = record.outcome is Outcome.FINISHED
        self.ended += record.request.output_tokens if whole else len(record.stream.token_times)
        self.failed += not whole


def shapes(text: str, usual: Shape) -> dict[str, Shape]:
    """The tenants of the command line, each with what its requests look like."""
    found = {}
    for each in text.split(","):
        name, _, own = each.partition(":")
        found[name] = Shape(*map(int, own.split("/"))) if own else usual
    return found


def requests(lots: random.Random, tenant: str, model: str, shape: Shape) -> Iterator[Request]:
    """Requests of one shape that share no prefix."""
    while True:
        prompt = [lots.randrange(*TOKEN_IDS) for _ in range(shape.prompt)]
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": shape.output,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        yield Request(tenant, None, shape.prompt, shape.output, json.dumps(body).encode())


async def connection(client: Client, source: Iterator[Request], count: Count, slot: int) -> None:
    """One closed loop: the next request leaves when the last one has ended."""
    for request in source:
        now = time.monotonic()
        record = count.live[slot] = Record(request, now, now)
        await client.send(record, time.monotonic)
        count.end(slot)
        if record.outcome is not Outcome.FINISHED:
            sys.stderr.write(f"saturate: {request.tenant}: {record.outcome}: {record.reason}\n")
            await asyncio.sleep(0.5)


async def run(args: argparse.Namespace) -> int:
    tenants = shapes(args.tenants, Shape(args.prompt, args.output))
    counts = {tenant: Count() for tenant in tenants}
    async with Client(args.url, HEADER, TIMEOUT) as client:
        model = (await client.endpoint(None)).model
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    connection(client, requests(lots, tenant, model, shape), counts[tenant], slot)
                )
                for tenant, shape in tenants.items()
                for slot in range(args.connections)
                for lots in [random.Random(f"{args.seed}/{tenant}/{slot}")]  # noqa: S311 - a load
            ]
            await report(counts, args.seconds)
            for task in tasks:
                task.cancel()
    return 1 if any(count.failed for count in counts.values()) else 0


async def report(counts: Mapping[str, Count], seconds: float) -> None:
    """Print the counts every second."""
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        line = {
            "t": round(elapsed, 3),
            "tokens": {tenant: count.tokens for tenant, count in counts.items()},
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(1.0 - (time.monotonic() - start) % 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.saturate", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--tenants", required=True, help="NAME or NAME:IN/OUT, ...")
    parser.add_argument("--connections", type=int, default=24, help="of each tenant")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--prompt", type=int, default=256, help="tokens in")
    parser.add_argument("--output", type=int, default=32, help="tokens out")
    parser.add_argument("--seed", type=int, default=1, help="another one makes other prompts")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
