"""Who is let in, and whose wait counts: without vLLM."""

from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import seats
from tenantry_core.ledger import BACKGROUND, Rank
from tenantry_core.seats import Holding
from tenantry_engine.gate import GRACE, SEAT_BOUND, Admission, Gate, Waits

SEATS = 16


def a_tenant(name: str, tag: float, running: int, waiting: int, weight: float = 1.0) -> Holding:
    rank = Rank(0 if weight else BACKGROUND, tag, name)
    return Holding(rank, running, waiting, running + waiting, weight)


QUIET = a_tenant("quiet", 1.0, 0, 1)
NOISY = a_tenant("noisy", 9.0, 16, 20)


def a_gate(*holdings: Holding, free: int = 1) -> Gate:
    running = {h.rank.tenant: h.running for h in holdings}
    absent = [h for h in holdings if not h.waiting]
    return Gate(seats.shares(SEATS, holdings), running, free, lambda: absent)


def admits(gate: Gate, holding: Holding) -> bool:
    return gate.admits(holding.rank)


def admission(gate: Gate, *holdings: Holding) -> Admission:
    return Admission([h.rank for h in holdings], gate, lambda tenant: tenant)


def test_whoever_is_below_its_share_is_let_in() -> None:
    assert admits(a_gate(QUIET, NOISY), QUIET)


def test_nobody_is_let_in_without_a_seat_or_through_a_closed_gate() -> None:
    assert not admits(a_gate(QUIET, NOISY, free=0), QUIET)
    gate = a_gate(QUIET, NOISY)
    gate.closed = True
    assert not admits(gate, QUIET)


def test_a_recalled_seat_is_for_the_tenant_that_it_was_recalled_for() -> None:
    gate = a_gate(QUIET, NOISY, free=3)
    gate.only = "quiet"
    assert admits(gate, QUIET)
    assert not admits(gate, NOISY)


def test_a_seat_is_left_for_a_less_served_tenant_that_was_here_a_moment_ago() -> None:
    away = a_tenant("quiet", 1.0, 0, 0)
    busy = a_tenant("noisy", 9.0, 15, 20)
    assert not admits(a_gate(away, busy, free=1), busy)
    assert admits(a_gate(away, busy, free=2), busy)


def test_weight_zero_is_let_in_only_if_nobody_else_waits() -> None:
    idle = a_tenant("idle", 0.0, 0, 3, weight=0.0)
    nobody = Admission([NOISY.rank, idle.rank], a_gate(idle, NOISY, free=8), no_room)
    assert nobody.next() is None
    assert admission(a_gate(idle, free=8), idle).next() == "idle"


def no_room(tenant: str) -> str | None:
    return "idle" if tenant == "idle" else None


def test_while_somebody_is_late_nobody_that_has_its_share_is_let_in() -> None:
    gate = a_gate(QUIET, NOISY, free=5)
    gate.late = frozenset({"quiet"})
    assert not admits(gate, NOISY)
    assert admits(gate, QUIET)


def test_a_head_that_does_not_fit_stops_nobody_else() -> None:
    others = Admission(
        [QUIET.rank, NOISY.rank],
        a_gate(QUIET, a_tenant("noisy", 9.0, 3, 20), free=8),
        lambda tenant: None if tenant == "quiet" else tenant,
    )
    assert others.next() == "noisy"


def test_within_a_step_what_was_admitted_counts_as_served() -> None:
    many, one = a_tenant("many", 0.0, 0, 100), a_tenant("one", 1.0, 0, 1)
    entry = admission(a_gate(many, one, free=16), many, one)
    assert entry.next() == "many"
    entry.taken("many", 2.0)
    assert entry.next() == "one"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12))
def test_whoever_was_served_least_goes_next_and_of_those_alike_whoever_came_first(
    those: list[tuple[int, int]],
) -> None:
    came = {f"t{number:02}": float(at) for number, (_, at) in enumerate(those)}
    tags = {f"t{number:02}": float(tag) for number, (tag, _) in enumerate(those)}
    holdings = [a_tenant(name, tag, 0, 9) for name, tag in tags.items()]
    gate = a_gate(*holdings, free=30)
    entry = Admission(
        [h.rank for h in holdings], gate, lambda tenant: tenant, None, came.__getitem__
    )
    for _ in range(30):
        best = min(tags, key=lambda tenant: (tags[tenant], came[tenant], tenant))
        assert entry.next() == best
        entry.taken(best, 1.0)
        tags[best] += 1.0
    assert entry.next() is None


def see(waits: Waits, now: float, *holdings: Holding, fresh: str = "quiet") -> None:
    share = seats.shares(SEATS, holdings)
    below = [h for h in holdings if h.waiting and h.running < share[h.rank.tenant]]
    most = max(h.rank for h in holdings if h.running)
    idle = frozenset(h.rank.tenant for h in below if not h.running and h.rank.tenant in fresh)
    waits.see(now, [h.rank for h in below], idle, most)


def waited(seconds: float, quiet: Holding = QUIET, fresh: str = "quiet") -> Waits:
    waits = Waits()
    for now in (0.0, seconds):
        see(waits, now, quiet, NOISY, fresh=fresh)
    return waits


def test_a_seat_is_recalled_at_once_for_a_tenant_that_runs_nothing() -> None:
    assert waited(0.0).ripe(0.0) == ["quiet"]


def test_a_tenant_that_always_waits_is_not_given_what_has_just_been_lent() -> None:
    assert waited(GRACE / 2, fresh="").ripe(GRACE / 2) == []
    assert waited(GRACE, fresh="").ripe(GRACE) == ["quiet"]


def test_a_tenant_that_runs_something_waits_a_little_first() -> None:
    some = a_tenant("quiet", 1.0, 2, 1)
    assert waited(GRACE / 2, some).ripe(GRACE / 2) == []
    assert waited(GRACE, some).ripe(GRACE) == ["quiet"]


def test_a_wait_beyond_the_bound_is_reported_once() -> None:
    late = 2 * SEAT_BOUND
    waits = waited(late)
    assert waits.inverted(waits.late(late)) == {"quiet"}
    assert waits.inverted(waits.late(late)) == frozenset()


def test_a_seat_ends_the_wait() -> None:
    waits = waited(SEAT_BOUND / 2)
    waits.served(["quiet"])
    see(waits, SEAT_BOUND * 1.2, QUIET, NOISY)
    assert waits.late(SEAT_BOUND * 1.2) == frozenset()


def test_the_most_served_tenant_is_never_kept_waiting_by_others() -> None:
    waits = Waits()
    see(waits, 0.0, a_tenant("quiet", 1.0, 2, 0), a_tenant("noisy", 9.0, 3, 5))
    assert waits.ripe(10.0) == []


def test_whose_decodes_will_take_more_than_their_part_stands_behind_its_place() -> None:
    ahead, behind = a_tenant("ahead", 1.0, 2, 9), a_tenant("behind", 1.2, 2, 9)
    gate = a_gate(ahead, behind, free=8)
    assert admission(gate, ahead, behind).next() == "ahead"
    gate.later = {"ahead": 0.5}
    assert admission(gate, ahead, behind).next() == "behind"
    assert admission(gate, ahead).next() == "ahead"
