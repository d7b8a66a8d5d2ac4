"""What is written down while a scheduler runs: each request, each step. Knows no engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenantry_bench.simulator.scenario import Recorded


class Record:
    """One request and what became of it.

    `at` is how far it was computed when last seen, `reached` the farthest; tokens. `times` are when
    its output tokens came, seconds.
    """

    __slots__ = (
        "at", "body", "ended", "first", "length", "prompt", "reached", "refused", "request",
        "stops", "tenant", "times",
    )  # fmt: skip

    def __init__(self, body: Recorded, tenant: int) -> None:
        self.body = body
        self.tenant = tenant
        self.prompt = body.prompt
        self.length = min(body.output, body.limit)
        self.stops = body.output <= body.limit
        self.at = 0
        self.reached = 0
        self.first: float | None = None
        self.ended: float | None = None
        self.refused = False
        self.times: list[float] = []
        self.request: Any = None

    @property
    def finished(self) -> bool:
        """Whether it had all its tokens."""
        return self.ended is not None and len(self.times) == self.length


@dataclass(slots=True)
class Line:
    """A step that is over: when it ended, and by tenant its GPU seconds, first-time prompt tokens,
    output tokens, and whether a request of it waited for its first turn.
    """

    end: float
    gpu: list[float]
    prompt: list[int]
    output: list[int]
    waits: list[bool]


@dataclass
class Log:
    """All that is measured; lists over tenants in the order of `tenants`."""

    tenants: tuple[str, ...]
    records: dict[str, Record] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    preemptions: list[tuple[float, int]] = field(default_factory=list)
    recomputed: list[tuple[float, int, int]] = field(default_factory=list)
    cached: list[tuple[float, int, int]] = field(default_factory=list)
    blocks: list[tuple[float, list[int]]] = field(default_factory=list)
    idle_turns: int = 0
    end: float = 0.0
