"""A cost model: how long a step of an engine takes on a GPU, and how large that engine is.

Step time is `dense` by the tokens of the step (a table, linear between its points, and beyond them
on its mean slope: tables are staircases), plus a price for each sequence, for each token of context
that a decode attends to, and for the attention of prompt chunks. It divides among requests without
a rest: who brings what pays for it, and `dense` goes by tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tenantry_api.parse import yaml_words
from tenantry_bench.errors import BadInputError

TABLE = 8192
"""Steps of up to so many tokens have their dense time looked up instead of computed."""

FULL = 2048
"""Tokens of a step in a full engine."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Mixed(BaseModel):
    """What dense work beyond `above` tokens costs in a step with both prompts and decodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    factor: Positive = 1.0
    above: int = Field(1, ge=1)


class Times(BaseModel):
    """The prices. `dense_ms` are pairs of tokens in the step and milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    dense_ms: tuple[tuple[int, Positive], ...] = Field(min_length=2)
    sequence_us: NotNegative
    context_ns: NotNegative
    prompt_ps: NotNegative
    mixed: Mixed = Mixed()

    @model_validator(mode="after")
    def _rising(self) -> Self:
        tokens = [pair[0] for pair in self.dense_ms]
        if tokens[0] != 1 or any(a >= b for a, b in pairwise(tokens)):
            raise ValueError("dense_ms: the tokens must begin at 1 and rise")
        if any(a[1] > b[1] for a, b in pairwise(self.dense_ms)):
            raise ValueError("dense_ms: the milliseconds must not fall")
        return self


class Profile(BaseModel):
    """A GPU with a model: prices of a step, and the engine's size as vLLM would choose it.

    `calibrated` is False where the prices are computed from data sheets and not measured. `source`
    says where they come from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1)
    gpu: str
    model: str
    calibrated: bool
    source: str = Field(min_length=1)
    kv_tokens: int = Field(ge=1024)
    block_size: int = Field(16, ge=1)
    max_num_seqs: int = Field(256, ge=1)
    max_num_batched_tokens: int = Field(2048, ge=16)
    times: Times


@dataclass(frozen=True, slots=True)
class Work:
    """What a request, a tenant or a whole step asks of the GPU.

    `tokens` go through the model, `sequences` are requests, `context` is summed over the decodes,
    and `attention` over the prompt chunks: chunk x (done before + chunk / 2), in tokens squared.
    """

    tokens: int = 0
    sequences: int = 0
    context: int = 0
    attention: float = 0.0
    mixed: bool = False


@dataclass(frozen=True)
class Costs:
    """Seconds by a profile. `slowdown` multiplies every time: the part of a GPU is a slow GPU."""

    times: Times
    slowdown: float = 1.0

    @cached_property
    def sequence(self) -> float:
        """Seconds for each sequence of a step."""
        return self.times.sequence_us * 1e-6 * self.slowdown

    @cached_property
    def context(self) -> float:
        """Seconds for each token of context of a decode."""
        return self.times.context_ns * 1e-9 * self.slowdown

    @cached_property
    def attention(self) -> float:
        """Seconds for each token squared of prompt attention."""
        return self.times.prompt_ps * 1e-12 * self.slowdown

    @cached_property
    def _tokens(self) -> list[int]:
        return [tokens for tokens, _ in self.times.dense_ms]

    @cached_property
    def _tables(self) -> tuple[list[float], list[float]]:
        counts = range(TABLE + 1)
        return [self._pure(n) for n in counts], [self._mixed(n) for n in counts]

    def dense(self, tokens: int, *, mixed: bool = False) -> float:
        """Seconds that so many tokens take to go through the model."""
        if tokens <= TABLE:
            return self._tables[mixed][tokens]
        return self._mixed(tokens) if mixed else self._pure(tokens)

    def seconds(self, work: Work) -> float:
        """Seconds of a step with this work."""
        return (
            self.dense(work.tokens, mixed=work.mixed)
            + self.sequence * work.sequences
            + self.context * work.context
            + self.attention * work.attention
        )

    def request(self, prompt: float, output: float) -> float:
        """Seconds that a request adds to an engine that is full of others, to size a load by."""
        dense = self.dense(FULL, mixed=True) / FULL * (prompt + output)
        context = self.context * output * (prompt + output / 2)
        return dense + self.sequence * (output + 1) + context + self.attention * prompt * prompt / 2

    def _pure(self, tokens: int) -> float:
        if tokens <= 0:
            return 0.0
        pairs = self.times.dense_ms
        at = bisect_right(self._tokens, tokens)
        (x0, y0), (x1, y1) = pairs[at - 1], pairs[min(at, len(pairs) - 1)]
        ms = y0
        if at == len(pairs):
            ms += (tokens - x0) * (y0 - pairs[0][1]) / (x0 - pairs[0][0])
        elif tokens > x0:
            ms += (tokens - x0) * (y1 - y0) / (x1 - x0)
        return ms * 1e-3 * self.slowdown

    def _mixed(self, tokens: int) -> float:
        rule = self.times.mixed
        base = self._pure(min(tokens, rule.above))
        return base + rule.factor * (self._pure(tokens) - base)


def shipped() -> tuple[str, ...]:
    """Return the names of the profiles that come with the product."""
    folder = resources.files("tenantry_bench") / "profiles"
    return tuple(sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".yaml")))


def find(argument: str) -> Profile:
    """Return the profile that `--profile` names: one of those shipped, or a file.

    Raises BadInputError.
    """
    if argument in shipped():
        source = resources.files("tenantry_bench") / "profiles" / f"{argument}.yaml"
        return parse(source.read_text(encoding="utf-8"), argument)
    path = Path(argument)
    if not path.is_file():
        known = ", ".join(shipped())
        raise BadInputError(f"--profile {argument}: neither a file nor one of {known}")
    try:
        return parse(path.read_text(encoding="utf-8"), argument)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--profile {argument}: cannot read it: {error}") from error


def parse(text: str, where: str) -> Profile:
    """Return the profile of a YAML `text`. Raises BadInputError with all findings."""
    try:
        body = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInputError(f"--profile {where}: not YAML: {yaml_words(error)}") from error
    try:
        return Profile.model_validate(body)
    except ValidationError as error:
        found = [
            f"{'.'.join(map(str, each['loc'])) or 'profile'}: {each['msg']}"
            for each in error.errors(include_url=False)
        ]
        raise BadInputError(f"--profile {where}: {'; '.join(found)}") from error
