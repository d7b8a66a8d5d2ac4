"""Who is let in, and whose wait counts: without vLLM."""

from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding
from tenantry_engine.gate import GRACE, SEAT_BOUND, Gate, Waits

SEATS = 16


def a_tenant(name: str, tag: float, running: int, waiting: int, weight: float = 1.0) -> Holding:
    rank = Rank(0 if weight else 1, tag, name)
    return Holding(rank, running, waiting, running + waiting, weight)


QUIET = a_tenant("quiet", 1.0, 0, 1)
NOISY = a_tenant("noisy", 9.0, 16, 20)


def a_gate(*holdings: Holding) -> Gate:
    return Gate(holdings, SEATS, None)


def admits(gate: Gate, holding: Holding, *, free: int = 1, band: int = 0) -> bool:
    return gate.admits(holding.rank, band, free, {})


def test_whoever_is_below_its_share_is_let_in() -> None:
    assert admits(a_gate(QUIET, NOISY), QUIET)


def test_nobody_is_let_in_without_a_seat_or_through_a_closed_gate() -> None:
    gate = a_gate(QUIET, NOISY)
    assert not admits(gate, QUIET, free=0)
    gate.closed = True
    assert not admits(gate, QUIET)


def test_a_recalled_seat_is_for_the_tenant_that_it_was_recalled_for() -> None:
    gate = a_gate(QUIET, NOISY)
    gate.only = "quiet"
    assert admits(gate, QUIET)
    assert not admits(gate, NOISY, free=3)


def test_a_seat_is_left_for_a_less_served_tenant_that_was_here_a_moment_ago() -> None:
    away = a_tenant("quiet", 1.0, 0, 0)
    busy = a_tenant("noisy", 9.0, 15, 20)
    gate = a_gate(away, busy)
    assert not admits(gate, busy, free=1)
    assert admits(gate, busy, free=2)


def test_weight_zero_is_let_in_only_if_nobody_else_waits() -> None:
    idle = a_tenant("idle", 0.0, 0, 3, weight=0.0)
    gate = a_gate(idle, NOISY)
    assert not admits(gate, idle, free=8, band=0)
    assert admits(gate, idle, free=8, band=1)


def test_while_somebody_is_late_nobody_that_has_its_share_is_let_in() -> None:
    gate = a_gate(QUIET, NOISY)
    gate.late = frozenset({"quiet"})
    assert not admits(gate, NOISY, free=5)
    assert admits(gate, QUIET, free=5)


def waited(seconds: float, quiet: Holding = QUIET) -> Waits:
    waits = Waits()
    for now in (0.0, seconds):
        gate = a_gate(quiet, NOISY)
        waits.see(now, gate.holdings, gate.share)
    return waits


def test_a_seat_is_recalled_at_once_for_a_tenant_that_runs_nothing() -> None:
    assert waited(0.0).ripe(0.0) == ["quiet"]


def test_a_tenant_that_runs_something_waits_a_little_first() -> None:
    some = a_tenant("quiet", 1.0, 2, 1)
    assert waited(GRACE / 2, some).ripe(GRACE / 2) == []
    assert waited(GRACE, some).ripe(GRACE) == ["quiet"]


def test_a_wait_beyond_the_bound_is_reported_once() -> None:
    late = 2 * SEAT_BOUND
    waits = waited(late)
    assert waits.inverted(late) == {"quiet"}
    assert waits.inverted(late) == frozenset()


def test_a_seat_ends_the_wait() -> None:
    waits = waited(SEAT_BOUND / 2)
    waits.served(["quiet"])
    gate = a_gate(QUIET, NOISY)
    waits.see(SEAT_BOUND * 1.2, gate.holdings, gate.share)
    assert waits.late(SEAT_BOUND * 1.2) == frozenset()


def test_the_most_served_tenant_is_never_kept_waiting_by_others() -> None:
    waits = Waits()
    quiet, noisy = a_tenant("quiet", 1.0, 2, 0), a_tenant("noisy", 9.0, 3, 5)
    gate = a_gate(quiet, noisy)
    waits.see(0.0, gate.holdings, gate.share)
    assert waits.ripe(10.0) == []


def test_a_tenant_is_light_while_it_asks_for_no_more_than_its_share() -> None:
    assert a_gate(a_tenant("quiet", 1.0, 1, 1), NOISY).light == {"quiet"}
    assert a_gate(a_tenant("quiet", 1.0, 1, 10), NOISY).light == frozenset()
