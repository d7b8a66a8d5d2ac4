"""Who sends what and when: a load and a seed, drawn out into requests.

Arrivals, lengths and contents come from three streams of random numbers, each seeded by the seed
and the tenant's name. So a tenant sends the same on every arm, whoever else is there. The contents
are seeded by a label as well (the arm): a server that is measured twice must not find the second
run's prompts in its prefix cache.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from tenantry_bench.load import MAX_TOKENS, LogNormal, Uniform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tenantry_bench.load import Load, TenantLoad
    from tenantry_bench.recorded import TraceRequest

TOKEN_IDS = (300, 1000)
"""Token ids of prompts, from (inclusive) to (exclusive): ordinary tokens of any vocabulary."""

HASH_BLOCK = 512
"""Tokens that one of a trace's `hash_ids` stands for (Mooncake's traces)."""


@dataclass(frozen=True)
class Request:
    """One request, ready to send at `planned` seconds after the start (None in a closed loop)."""

    tenant: str | None
    planned: float | None
    prompt_tokens: int
    output_tokens: int
    body: bytes
    cancel_at: float | None = None


@dataclass(frozen=True)
class Plan:
    """A load, the seed of this run, and what the endpoint calls its model."""

    load: Load
    seed: int
    model: str
    label: str = ""

    def _stream(self, purpose: str, tenant: str) -> random.Random:
        return random.Random(f"{self.seed}/{purpose}/{tenant}")  # noqa: S311 - a plan, not a secret

    def open_loop(self, tenant: TenantLoad) -> Iterator[Request]:
        """Return the tenant's requests in the order of their planned times."""
        shapes = self._shapes(tenant)
        for planned in self._arrivals(tenant):
            yield next(shapes)(planned)

    def closed_loop(self, tenant: TenantLoad) -> Iterator[Request]:
        """Return requests without end; each is sent when a connection is free."""
        for shape in self._shapes(tenant):
            yield shape(None)

    def recorded(self) -> Iterator[Request]:
        """Return the requests of the load's trace by time; equal times keep the file's order."""
        contents = self._stream("contents", self.label)
        for line in sorted(self.load.trace, key=lambda request: request.t):
            yield self._of_line(line, contents)

    def _arrivals(self, tenant: TenantLoad) -> Iterator[float]:
        """Return planned times until the tenant has its measured requests, or for ever."""
        assert tenant.rate is not None  # noqa: S101 - an open loop has one
        stream = self._stream("arrivals", tenant.name)
        constant = tenant.process == "constant"
        planned, measured = tenant.start, 0
        while tenant.requests is None or measured < tenant.requests:
            planned += 1 / tenant.rate if constant else stream.expovariate(tenant.rate)
            measured += planned >= self.load.warmup
            yield planned

    def _shapes(self, tenant: TenantLoad) -> Iterator[Any]:
        """Return functions from a planned time to the tenant's next request."""
        lengths = self._stream("lengths", tenant.name)
        contents = self._stream("contents", f"{tenant.name}/{self.label}")
        text = self.load.text if tenant.text is None else tenant.text
        for _ in count():
            prompt = draw(tenant.prompt, lengths)
            output = draw(tenant.output, lengths)
            body = encode(self.model, tokens(prompt, contents), output, text=text)
            yield lambda planned, p=prompt, o=output, b=body: Request(tenant.name, planned, p, o, b)

    def _of_line(self, line: TraceRequest, contents: random.Random) -> Request:
        prompt: list[int] = []
        for name in line.hash_ids:
            prompt += tokens(HASH_BLOCK, self._stream("block", str(name)))
        prompt = prompt[: line.prompt]
        prompt += tokens(line.prompt - len(prompt), contents)
        extra: dict[str, Any] = {} if line.n == 1 else {"n": line.n}
        if line.priority is not None:
            extra["priority"] = line.priority
        body = encode(self.model, prompt, line.output, text=self.load.text, extra=extra)
        return Request(line.tenant, line.t, line.prompt, line.output, body, line.cancel_at)


def draw(lengths: Uniform | LogNormal, stream: random.Random) -> int:
    """Return one length in tokens, at least 1."""
    if isinstance(lengths, Uniform):
        return stream.randint(lengths.low, lengths.high)
    variance = math.log1p(lengths.cv**2)
    mu = math.log(lengths.mean) - variance / 2
    return min(max(1, round(stream.lognormvariate(mu, math.sqrt(variance)))), MAX_TOKENS)


def tokens(length: int, stream: random.Random) -> list[int]:
    return stream.choices(range(*TOKEN_IDS), k=length)


def word(token: int) -> str:
    """Return a word of three letters for a token id, a different one for each."""
    number = token - TOKEN_IDS[0]
    return "".join(chr(97 + number // 26**place % 26) for place in (2, 1, 0))


def encode(
    model: str,
    prompt: list[int],
    output: int,
    *,
    text: bool = False,
    extra: dict[str, Any] | None = None,
) -> bytes:
    """Return the body of a streamed completion of exactly `output` tokens."""
    body = {
        "model": model,
        "prompt": " ".join(map(word, prompt)) if text else prompt,
        "max_tokens": output,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **(extra or {}),
    }
    return json.dumps(body, separators=(",", ":")).encode()
