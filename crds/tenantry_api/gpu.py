"""What one replica holds: whole GPUs, a fraction of one, or a MIG instance."""

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from tenantry_api.choices import Sharing
from tenantry_api.values import Part, Quantity

SPLITS = range(2, 49)
SHARE_TOLERANCE = Decimal("0.005")
MIG_PATTERN = r"^[1-9]g[.][1-9][0-9]{0,2}gb([+](me|gfx|me[.]all))?(-me)?$"


def split_of(share: Decimal) -> int | None:
    """n when `share` is 1/n of a GPU that the device plugin may split in n, else None."""
    if share <= 0:
        return None
    nearest = round(1 / share)
    if nearest in SPLITS and abs(share - Decimal(1) / nearest) <= SHARE_TOLERANCE:
        return nearest
    return None


def neighbours(share: Decimal) -> tuple[int, int]:
    """The splits next to a share that is none itself: the larger piece first."""
    if share * SPLITS[-1] <= 1:
        return SPLITS[-2], SPLITS[-1]
    below = min(max(int(1 / share), SPLITS[0]), SPLITS[-2])
    return below, below + 1


class Gpu(Part):
    """The GPU claim of one replica."""

    sharing: Sharing = Field(
        Sharing.EXCLUSIVE,
        description="How a replica holds its GPU. Exclusive: whole GPUs. MPS or TimeSlicing: a "
        "fraction of one, on nodes whose device plugin splits GPUs that way; neither isolates "
        "memory or faults. MIG: one hardware instance.",
    )
    count: Annotated[int, Field(strict=True, ge=1, le=64)] = Field(
        1,
        description="GPUs per replica; above 1 the model is split over them (tensor parallel). "
        "Only with Exclusive.",
    )
    share: Quantity | None = Field(
        None,
        description='Fraction of one GPU, 1/n for n from 2 to 48, in quotes: "0.5", "0.25". The '
        "pod asks for one device of a node whose GPUs are split in n. Required with MPS and "
        "TimeSlicing, and only there.",
    )
    mig_profile: Annotated[str, Field(max_length=32)] | None = Field(
        None,
        description="MIG profile as nvidia-smi lists it, for example 3g.40gb. Required with MIG, "
        "and only there.",
    )

    @property
    def split(self) -> int | None:
        """In how many devices a GPU is split for `share`; None without a share."""
        return None if self.share is None else split_of(self.share)
