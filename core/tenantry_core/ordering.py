"""In which order a tenant's own waiting requests are served.

An ordering is a function from a request to a key; the smallest key goes first. Every key ends in
the same tie-break, arrival and then id, so that an order is total and two runs agree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an ordering may look at: arrival in seconds of the caller's clock, and the id."""

    arrival: float
    request: str


Key = tuple[float, float, str]
Ordering = Callable[[Waiting], Key]


def fifo(waiting: Waiting) -> Key:
    """First come, first served."""
    return (0.0, waiting.arrival, waiting.request)


DEFAULT: Final = "FIFO"
ORDERINGS: Final[Mapping[str, Ordering]] = MappingProxyType({DEFAULT: fifo})
