"""When a container starts again. Pure: the numbers in, the answer out."""

from __future__ import annotations

from dataclasses import dataclass

# A container that ran this long has proven itself: its next failure waits the shortest time.
PROVEN_SECONDS = 600.0


@dataclass(frozen=True)
class Backoff:
    """Doubling waits between starts. initial, maximum: seconds."""

    initial: float
    maximum: float

    def wait(self, restarts: int) -> float:
        """Seconds before the start that follows `restarts` earlier restarts in a row.

        The first restart is immediate, as a kubelet's.
        """
        if restarts <= 0:
            return 0.0
        return min(self.initial * 2.0 ** min(restarts - 1, 30), self.maximum)


def starts_again(policy: str, exit_code: int) -> bool:
    """Whether a pod's `restartPolicy` wants another try."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
