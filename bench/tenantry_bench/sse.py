"""One streamed answer, from bytes and the times they came at to what was said when. No I/O.

A token event is an event with a non-empty `content`, `reasoning_content`, `tool_calls` or `text`.
The first of them is the first token: a chunk that only carries a role, a comment or usage is not.
Bytes may be cut anywhere and may hold several events; an event's time is that of the read that
completed it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be half a line end: it waits for the next read."""

SAID = ("content", "reasoning_content", "reasoning", "tool_calls", "text")
MAX_BUFFER = 1024 * 1024
"""Bytes of one line; an event of a completion has some hundred."""


@dataclass
class Stream:
    """What has arrived of one answer. Times are what `feed` was given, in the same unit."""

    token_times: list[float] = field(default_factory=list)
    role_time: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None
    complete: bool = False
    _pending: bytes = b""
    _data: list[bytes] = field(default_factory=list)

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes, read at `now`."""
        lines = LINE_END.split(self._pending + data)
        self._pending = lines.pop()
        if len(self._pending) > MAX_BUFFER:
            self.error, self._pending = "a line without end", b""
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                payload, self._data = b"\n".join(self._data), []
                self._event(payload, now)

    @property
    def gaps(self) -> list[float]:
        """The time between each pair of token events."""
        return [b - a for a, b in zip(self.token_times, self.token_times[1:], strict=False)]

    @property
    def time_per_token(self) -> float | None:
        """(last - first) / (tokens - 1), where the server said how many tokens there were."""
        if not self.token_times or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_tokens - 1)

    def _event(self, payload: bytes, now: float) -> None:
        if payload.strip() == b"[DONE]":
            self.complete = True
            return
        try:
            body = json.loads(payload)
        except (ValueError, RecursionError):
            self.error = f"an event that is not JSON: {payload[:80]!r}"
            return
        if not isinstance(body, dict):
            self.error = f"an event that is no object: {payload[:80]!r}"
        elif body.get("error"):
            self.error = _message(body["error"])
        elif not _is_chunk(body):
            self.error = f"an event that is no completion chunk: {payload[:80]!r}"
        else:
            self._chunk(body, now)

    def _chunk(self, body: dict[str, Any], now: float) -> None:
        if isinstance(body.get("usage"), dict):
            self._usage(body["usage"])
        choices = body.get("choices") or []
        if any(map(_says, choices)):
            self.token_times.append(now)
        elif choices and self.role_time is None and not self.token_times:
            self.role_time = now
        self.complete = self.complete or any(c.get("finish_reason") for c in choices)

    def _usage(self, usage: dict[str, Any]) -> None:
        details = usage.get("prompt_tokens_details")
        self.prompt_tokens = _tokens(usage, "prompt_tokens")
        self.output_tokens = _tokens(usage, "completion_tokens")
        self.cached_tokens = _tokens(details, "cached_tokens")


def _is_chunk(body: dict[str, Any]) -> bool:
    """Whether the parts that are read have the shape of a completion's."""
    choices = body.get("choices") or []
    return isinstance(choices, list) and all(
        isinstance(choice, dict) and isinstance(choice.get("delta") or {}, dict)
        for choice in choices
    )


def _tokens(counts: object, name: str) -> int | None:
    """Return a number of tokens, None where the server says nothing that could be one."""
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if type(value) is int and value >= 0 else None


def _says(choice: dict[str, Any]) -> bool:
    said = choice.get("delta") or choice
    return any(said.get(name) for name in SAID)


def _message(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error)
    return str(error)
