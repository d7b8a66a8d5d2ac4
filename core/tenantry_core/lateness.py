"""How late a token is, against the tenant alone on its share of the engine.

The reference needs no second run: alone on a share w of the engine a request would have its prompt
done after prompt / w seconds, and a token every step / w seconds from then on, where both times are
those of the whole engine with nothing else in it (a roofline, stretched by the share). It asks for
nothing that the tenant's own other requests would take from it, so it is a little strict.
"""

from dataclasses import dataclass
from typing import Final

LEAST: Final = 1e-6
"""A share below this counts as this: nothing is late against no share at all."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the tokens of one request are due: token k (from 0) at `first` + k * `each` seconds."""

    first: float
    each: float

    def due(self, token: int) -> float:
        """Seconds of the caller's clock at which this token is due, counted from 0."""
        return self.first + token * self.each

    def late(self, tokens: int, now: float) -> float:
        """Seconds by which the next token is late, when so many are there; negative: time left."""
        return now - self.due(tokens)


def pace(arrival: float, prompt: float, step: float, share: float) -> Pace:
    """The pace of a request that came at `arrival`: seconds of its `prompt` and of one `step` on
    the whole engine, and the share of its tenant, 0 to 1."""
    part = min(max(share, LEAST), 1.0)
    return Pace(arrival + (prompt + step) / part, step / part)
