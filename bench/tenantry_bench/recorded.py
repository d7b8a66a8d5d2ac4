"""The trace file: one recorded request a line, JSON."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tenantry_bench.errors import BadInputError

SHOWN = 10
"""How many bad lines a message lists before it only counts."""


class TraceRequest(BaseModel):
    """One request: `t` seconds after the start, `prompt` tokens in, `out` tokens out.

    `out` is the true length of the answer (default `max_tokens`) and is what is asked for, since a
    server under test has no other way to know it. `hash_ids` name prefix blocks of 512 tokens that
    requests share; the client goes away at `cancel_at`. `class`, `deadline` and `structured` are
    read and not sent: HTTP has no word for them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)
    id: str = ""
    tenant: str | None = Field(None, min_length=1, max_length=128, pattern=r"^[\x20-\x7e]+$")
    t: float = Field(ge=0, allow_inf_nan=False)
    prompt: int = Field(ge=1, le=10_000_000)
    max_tokens: int | None = Field(None, ge=0, le=10_000_000)
    out: int | None = Field(None, ge=0, le=10_000_000)
    hash_ids: tuple[int, ...] = Field((), strict=False)
    priority: int | None = None
    n: int = Field(1, ge=1, le=128)
    cancel_at: float | None = Field(None, allow_inf_nan=False)
    deadline: float | None = Field(None, allow_inf_nan=False)
    structured: bool = False
    traffic_class: str | None = Field(None, alias="class")

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.max_tokens is None and self.out is None:
            raise ValueError("give out or max_tokens")
        return self

    @property
    def output(self) -> int:
        """Tokens to ask for."""
        limits = [length for length in (self.out, self.max_tokens) if length is not None]
        return min(limits)


def _line(number: int, text: str) -> TraceRequest | str:
    """Return the request of one line, or what is wrong with it."""
    try:
        return TraceRequest.model_validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in found["loc"])
        message = found["msg"].removeprefix("Value error, ")
        return f"line {number}: {field + ': ' if field else ''}{message}"


def read_trace(text: str, where: str) -> tuple[TraceRequest, ...]:
    """Return the requests of a trace in the order of the file.

    Raises BadInputError that names each unusable line by its number.
    """
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    parsed = [_line(number, line) for number, line in lines]
    bad = [found for found in parsed if isinstance(found, str)]
    if bad:
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise BadInputError(f"{where}: {'; '.join(bad[:SHOWN])}{more}")
    if not parsed:
        raise BadInputError(f"{where}: no request in it; a trace has one JSON object a line")
    return tuple(found for found in parsed if isinstance(found, TraceRequest))
