"""What one step is to look like while several tenants are about: decided before vLLM schedules it.

Everything here reads requests and changes none. The scheduler carries the plan out: preempt, hide,
set the knobs, let vLLM schedule, put everything back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from tenantry_core import seats
from tenantry_core.budget import Ceiling, Packer
from tenantry_core.ledger import Rank
from tenantry_core.probes import Probe
from tenantry_core.seats import Holding
from tenantry_core.stepmodel import Load
from tenantry_core.tiles import KNEE
from tenantry_engine import translate
from tenantry_engine.census import Census

NO_THRESHOLD: Final = 0
SLACK: Final = 1.1
"""Times its share of the KV cache that a tenant may hold before somebody takes some of it back."""
LEAST: Final = 1e-9
"""What weight 0 counts as where something is divided by it."""
Place = tuple[int, float, str]
"""A rank as a plain tuple."""


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


@dataclass(slots=True)
class Head:
    """A waiting request in turn: its tenant's rank, prompt tokens to do, KV blocks it needs."""

    request: Any
    rank: Rank
    tokens: int
    blocks: int


@dataclass(slots=True, eq=False)
class Prompt:
    """A running request whose prompt is not through, and its tenant's rank."""

    request: Any
    rank: Rank


@dataclass(slots=True)  # not frozen: it is made in every step, at a quarter of the time
class Scene:
    """What a step is planned from: the running list and its census, its prompts by rank, the head
    that would be admitted, the tokens that the decodes take, whether they stand before the prompts,
    who ranks before whom, and who is `light`: asks for no more seats than its share.
    """

    running: Sequence[Any]
    census: Census
    prompts: Sequence[Prompt]
    head: Head | None
    tokens: int
    in_order: bool
    precedes: Callable[[Collection[str], Place], bool]
    light: Callable[[], Collection[str]]

    @property
    def ready(self) -> bool:
        """Whether the list stands as it should already: decodes, then the prompts by rank."""
        return self.in_order and all(
            prompt.request is request
            for prompt, request in zip(self.prompts, self.census.prompts, strict=True)
        )


def by_rank(prompts: Sequence[Any], rank: Callable[[Any], Rank]) -> list[Prompt]:
    """Prompts of the least served first; of one tenant the one that was admitted first."""
    return sorted((Prompt(each, rank(each)) for each in prompts), key=_rank)


def _rank(prompt: Prompt) -> Rank:
    return prompt.rank


@dataclass(slots=True)
class Turn:
    """The plan: the knobs in tokens, the running requests in order (None: as they stand), those of
    them that sit the step out, and what is to be learned (None: nobody asked)."""

    tokens: int
    threshold: int = 0
    visible: Sequence[Any] | None = None
    hidden: Sequence[Any] = ()
    probe: Probe | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """Seats and KV blocks: how many are free, how many there are; and the tokens of a block."""

    free_seats: int
    seats: int
    free_blocks: int
    blocks: int
    block: int


def members(
    running: Sequence[Any], rank: Callable[[Any], Rank], block: int, movable: Callable[[Any], bool]
) -> list[Member]:
    """Every running request as a possible victim; made only when somebody has to go back."""
    return [
        Member(each, rank(each), -(-each.num_computed_tokens // block), movable(each))
        for each in running
    ]


def overflow(
    plan: Turn, running: Sequence[Any], members: Sequence[Member], room: Room
) -> list[Member]:
    """Running requests that go back because the step takes more blocks than are free.

    The most served tenant's latest goes first. vLLM would take the last of its list, which is
    ordered by who gets budget and may be the least served tenant's.
    """
    visible = running if plan.visible is None else plan.visible
    growth = _growth(plan, visible, room.block)
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
    """The request that goes back next: of the tenant that has borrowed most."""
    held: Counter[str] = Counter()
    for member in staying:
        held[member.tenant] += member.blocks if in_blocks else 1
    now = [replace(holding, running=held[holding.rank.tenant]) for holding in holdings]
    share = seats.shares(room.blocks if in_blocks else room.seats, now)
    if in_blocks:
        return _hoarder(head, staying, now, share)
    tenant = seats.lender(now, share, head.rank.tenant)
    mine = [m for m in staying if m.tenant == tenant and m.movable]
    return min(
        mine, key=lambda m: (m.request.num_computed_tokens, m.request.request_id), default=None
    )


def _hoarder(
    head: Head, staying: Sequence[Member], holdings: Collection[Holding], share: Mapping[str, int]
) -> Member | None:
    """The latest request of the tenant that holds most blocks for its weight and more than its
    share of them by SLACK, however little time it was given; never its last one."""
    mine = next((h for h in holdings if h.rank.tenant == head.rank.tenant), None)
    if mine is None or mine.running + head.blocks > SLACK * share[head.rank.tenant]:
        return None
    others = [h for h in holdings if h.rank.tenant != head.rank.tenant]
    over = [h for h in others if h.running > SLACK * share[h.rank.tenant]]
    most = max(over, key=lambda h: (h.running / (h.weight or LEAST), h.rank), default=None)
    if most is None:
        return None
    theirs = [m for m in staying if m.tenant == most.rank.tenant]
    movable = [member for member in reversed(theirs) if member.movable and member.blocks]
    return movable[0] if movable and len(theirs) > 1 else None


def _growth(plan: Turn, visible: Sequence[Any], block: int) -> dict[str, int]:
    """Blocks that each visible request takes in the step."""
    left = plan.tokens
    growth = {}
    for request in visible:
        before = request.num_computed_tokens
        tokens = max(min(_wanted(request, plan.threshold), left), 0)
        left -= tokens
        growth[request.request_id] = -(-(before + tokens) // block) - -(-before // block)
    return growth


def _wanted(request: Any, threshold: int) -> int:
    if translate.decoding(request):
        return translate.decode_tokens(request)
    rest = int(request.num_tokens - request.num_computed_tokens)
    return min(rest, threshold) if threshold else rest


def arrange(scene: Scene, packer: Packer, ceiling: Callable[[bool], Ceiling]) -> Turn:
    """Decodes first, then prompts of the least served. The waiting head of a less served tenant
    keeps the others' prompts out of the step, but for what fits into the chunk beside it.
    `ceiling` is asked with whether the step holds decodes to protect.
    """
    load = Load(decodes=scene.tokens, context=scene.census.total)
    context = scene.prompts[0].request.num_computed_tokens if scene.prompts else 0
    bound = ceiling(_protects(scene))
    probe = packer.probe(bound) if load.decodes > 1 and scene.prompts else None
    if probe is not None and probe is not Probe.NONE:
        return _probing(scene, probe)
    chunk = packer.chunk(load, context, bound)
    kept, threshold = _beside(scene.head, scene.prompts, chunk)
    tokens = max(load.decodes + chunk, 1)
    if not scene.prompts or (scene.ready and len(kept) == len(scene.prompts)):
        return Turn(tokens, threshold, probe=probe)
    decodes = [request for request in scene.running if not request.is_prefill_chunk]
    visible = decodes + [prompt.request for prompt in kept]
    stay = {id(prompt) for prompt in kept}
    hidden = [prompt.request for prompt in scene.prompts if id(prompt) not in stay]
    return Turn(tokens, threshold, visible, hidden, probe)


def _probing(scene: Scene, probe: Probe) -> Turn:
    """A step with the first decode of the list, with decodes, or with prompts alone: no more of
    either than reading the weights hides."""
    tokens = KNEE
    if probe == Probe.PROMPTS:
        visible = [prompt.request for prompt in scene.prompts]
    else:
        decoding = (each for each in scene.running if translate.decoding(each))
        visible = list(islice(decoding, 1 if probe == Probe.ONE else KNEE))
        tokens = min(sum(map(translate.decode_tokens, visible)), KNEE)
    seen = {id(each) for each in visible}
    hidden = [each for each in scene.running if id(each) not in seen]
    return Turn(tokens, NO_THRESHOLD, visible, hidden, probe)


def _protects(scene: Scene) -> bool:
    """Whether a decode in the step must not wait long for a prompt.

    So it is with decodes of a tenant that was served less than the one whose prompt is next, and
    of a light one beside any prompt of another: just served it may be ahead by a few tokens, and
    its share is still not used up.
    """
    ranks = [prompt.rank for prompt in scene.prompts]
    if scene.head is not None:
        ranks.append(scene.head.rank)
    if not ranks:
        return False
    decoding = scene.census.decodes
    if scene.precedes(decoding, min(ranks)):
        return True
    light = scene.light()
    if not light:
        return False
    owners = {rank.tenant for rank in ranks}
    return any(owners != {tenant} for tenant in light if tenant in decoding)


def _beside(head: Head | None, prompts: Sequence[Prompt], chunk: int) -> tuple[list[Prompt], int]:
    """The prompts that stay in the step, and the most tokens that each may take."""
    if head is None or not prompts:
        return list(prompts), NO_THRESHOLD
    ahead = [prompt for prompt in prompts if prompt.rank <= head.rank]
    behind = prompts[len(ahead) :]
    if not behind:
        return ahead, NO_THRESHOLD
    if not ahead and 2 * head.tokens <= chunk:
        return list(behind[:1]), chunk - head.tokens
    return ahead, NO_THRESHOLD


def showing(plan: Turn, may_hide: Callable[[Any], bool]) -> Turn:
    """The plan with those that vLLM has to see behind all others."""
    seen = [request for request in plan.hidden if not may_hide(request)]
    hidden = [request for request in plan.hidden if may_hide(request)]
    return replace(plan, visible=[*(plan.visible or ()), *seen], hidden=hidden)


def uncapped(plan: Turn, tokens: int) -> Turn:
    """The plan for a step whose prompts cannot be cut: the engine's own limit, no threshold."""
    return replace(plan, tokens=tokens, threshold=NO_THRESHOLD)


def restored(before: list[Any], hidden: Sequence[Any], base: int, after: list[Any]) -> list[Any]:
    """The running list in vLLM's own order, that of admission, without those that were
    preempted. vLLM admits nobody in a step in which it preempts."""
    if len(after) >= base:
        return before + after[base:]
    staying = {id(request) for request in (*hidden, *after)}
    return [request for request in before if id(request) in staying]
