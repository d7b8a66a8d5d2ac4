"""What a step costs before one has run: a guess to start from, for an engine nobody has measured.

The guess has the shape of a roofline. Reading the weights costs the same for every step; tokens are
almost free until the arithmetic takes as long as the reading (the knee), then cost in proportion;
each decode adds its own sampling and bookkeeping and reads the KV of its context, at the speed at
which the weights are read; a prompt's attention grows with the square of its length.
"""

from dataclasses import dataclass
from typing import Final

from tenantry_core.tiles import KNEE


@dataclass(frozen=True, slots=True)
class Prior:
    """Seconds: for every step, for a token up to and beyond the knee, for a decode, for a token of
    context that decodes attend to, and for a unit of a prompt's attention work (token x token).

    The defaults round public figures for an 8-billion-parameter model in 16 bits on an A100: times
    of its matrix products (Vidur), and runs of vLLM 0.19 with 1 to 64 requests at once (kvwarden).
    Its KV is 131 kB a token and its weights 16 GB, so that a token of context takes 8.2 millionths
    of the fixed time. Any of them may be wrong by a factor: the first steps that run set the scale,
    later ones the shape.
    """

    fixed: float = 0.0107
    token: float = 27e-6
    beyond: float = 85e-6
    decode: float = 35e-6
    context: float = 8.7e-8
    work: float = 2.1e-9
    knee: int = KNEE

    def coefficients(self) -> tuple[float, float, float, float, float, float]:
        """The seconds in the order of the model's figures."""
        return (self.fixed, self.token, self.beyond, self.decode, self.context, self.work)


SHIPPED: Final = Prior()
