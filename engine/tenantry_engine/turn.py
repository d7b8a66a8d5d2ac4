"""What one step is to look like while several tenants are about: decided before vLLM schedules it.

Everything here reads requests and changes none. The scheduler carries the plan out: preempt, hide,
set the knobs, let vLLM schedule, put everything back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tenantry_core import budget, seats
from tenantry_core.budget import Ceiling
from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding
from tenantry_core.stepmodel import Load, StepModel
from tenantry_engine import translate

NO_THRESHOLD: Final = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A running request, its tenant's rank, the KV blocks it holds, and whether it can go back
    now."""

    request: Any
    rank: Rank
    blocks: int
    movable: bool = True

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.rank.tenant


@dataclass(frozen=True, slots=True)
class Head:
    """A waiting request in turn: its tenant's rank, prompt tokens to do, KV blocks it needs."""

    request: Any
    rank: Rank
    tokens: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Turn:
    """The plan: running requests in order, those that sit it out, and the knobs in tokens."""

    visible: Sequence[Any]
    hidden: Sequence[Any]
    tokens: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Room:
    """Seats and KV blocks: how many are free, how many there are; and the tokens of a block."""

    free_seats: int
    seats: int
    free_blocks: int
    blocks: int
    block: int


def overflow(turn: Turn, members: Sequence[Member], room: Room) -> list[Member]:
    """Running requests that go back because the step takes more blocks than are free.

    The most served tenant's latest goes first. vLLM would take the last of its list, which is
    ordered by who gets budget and may be the least served tenant's.
    """
    if room.free_blocks > len(turn.visible) + turn.tokens // room.block:
        return []  # no step can take more
    growth = _growth(turn, room.block)
    staying = list(members)
    victims: list[Member] = []
    free = room.free_blocks
    while sum(growth.get(m.request.request_id, 0) for m in staying) > free:
        movable = [member for member in reversed(staying) if member.movable]
        if len(staying) == 1 or not movable:
            break  # vLLM's own rule for what is left
        victim = max(movable, key=lambda member: member.rank)  # of equals the one admitted last
        staying.remove(victim)
        victims.append(victim)
        free += victim.blocks
    return victims


def recall(
    head: Head, members: Sequence[Member], room: Room, holdings: Collection[Holding]
) -> list[Member]:
    """Running requests that give back what they borrowed, so that the head of a tenant below its
    share can run; none if that would not be enough.
    """
    staying = list(members)
    victims: list[Member] = []
    free_seats, free_blocks = room.free_seats, room.free_blocks
    while free_seats < 1 or free_blocks < head.blocks:
        victim = _lent(head, staying, room, holdings, in_blocks=free_seats >= 1)
        if victim is None:
            return []
        staying.remove(victim)
        victims.append(victim)
        free_seats += 1
        free_blocks += victim.blocks
    return victims


def _lent(
    head: Head,
    staying: Sequence[Member],
    room: Room,
    holdings: Collection[Holding],
    *,
    in_blocks: bool,
) -> Member | None:
    """The request whose loss costs least of the tenant that has borrowed and been served most."""
    held: Counter[str] = Counter()
    for member in staying:
        held[member.tenant] += member.blocks if in_blocks else 1
    now = [replace(holding, running=held[holding.rank.tenant]) for holding in holdings]
    share = seats.shares(room.blocks if in_blocks else room.seats, now)
    tenant = seats.lender(now, share, head.rank.tenant)
    mine = [m for m in staying if m.tenant == tenant and m.movable and (m.blocks or not in_blocks)]
    return min(
        mine, key=lambda m: (m.request.num_computed_tokens, m.request.request_id), default=None
    )


def _growth(turn: Turn, block: int) -> dict[str, int]:
    """Blocks that each visible request takes in the step."""
    left = turn.tokens
    growth = {}
    for request in turn.visible:
        before = request.num_computed_tokens
        tokens = max(min(_wanted(request, turn.threshold), left), 0)
        left -= tokens
        growth[request.request_id] = -(-(before + tokens) // block) - -(-before // block)
    return growth


def _wanted(request: Any, threshold: int) -> int:
    if translate.decoding(request):
        return translate.decode_tokens(request)
    rest = int(request.num_tokens - request.num_computed_tokens)
    return min(rest, threshold) if threshold else rest


def arrange(
    members: Sequence[Member],
    head: Head | None,
    model: StepModel,
    ceiling: Ceiling,
    light: Collection[str] = (),
) -> Turn:
    """Decodes first, then prefills of the least served. The waiting head of a less served tenant
    keeps the others' prefills out of the step, but for what fits into the chunk beside it.

    `light` are the tenants that ask for no more than their share.
    """
    decodes = [member for member in members if translate.decoding(member.request)]
    prefills = sorted(
        (member for member in members if not translate.decoding(member.request)),
        key=lambda member: member.rank,
    )
    load = Load(
        decodes=sum(translate.decode_tokens(member.request) for member in decodes),
        context=sum(member.request.num_computed_tokens for member in decodes),
    )
    context = prefills[0].request.num_computed_tokens if prefills else 0
    chunk = budget.chunk(
        model, load, context, replace(ceiling, protecting=_protects(members, head, light))
    )
    kept, threshold = _beside(head, prefills, chunk)
    return Turn(
        visible=[member.request for member in (*decodes, *kept)],
        hidden=[member.request for member in prefills if member not in kept],
        tokens=max(load.decodes + chunk, 1),
        threshold=threshold,
    )


def _protects(members: Sequence[Member], head: Head | None, light: Collection[str]) -> bool:
    """Whether a decode in the step must not wait long for a prompt.

    So it is with decodes of a tenant that was served less than the one whose prompt is next, and
    of a light one beside any prompt of another: just served it may be ahead by a few tokens, and
    its share is still not used up.
    """
    prompts = [m.rank for m in members if not translate.decoding(m.request)]
    if head is not None:
        prompts.append(head.rank)
    if not prompts:
        return False
    following, owners = min(prompts), {rank.tenant for rank in prompts}
    decoding = {m.rank for m in members if translate.decoding(m.request)}
    return any(
        rank < following or (rank.tenant in light and owners != {rank.tenant}) for rank in decoding
    )


def _beside(head: Head | None, prefills: Sequence[Member], chunk: int) -> tuple[list[Member], int]:
    """The prefills that stay in the step, and the most tokens that each may take."""
    ahead = [member for member in prefills if head is None or member.rank <= head.rank]
    behind = [member for member in prefills if member not in ahead]
    if head is None or not behind:
        return list(prefills), NO_THRESHOLD
    if not ahead and 2 * head.tokens <= chunk:
        return behind[:1], chunk - head.tokens
    return ahead, NO_THRESHOLD


def showing(plan: Turn, may_hide: Callable[[Any], bool]) -> Turn:
    """The plan with those that vLLM has to see behind all others."""
    seen = [request for request in plan.hidden if not may_hide(request)]
    hidden = [request for request in plan.hidden if may_hide(request)]
    return replace(plan, visible=[*plan.visible, *seen], hidden=hidden)


def uncapped(plan: Turn, tokens: int) -> Turn:
    """The plan for a step whose prompts cannot be cut: the engine's own limit, no threshold."""
    return replace(plan, tokens=tokens, threshold=NO_THRESHOLD)
