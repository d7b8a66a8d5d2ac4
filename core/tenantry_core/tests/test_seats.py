"""Who may hold how many seats, and whose is given back."""

from hypothesis import given
from hypothesis import strategies as st

from tenantry_core import seats
from tenantry_core.ledger import Rank
from tenantry_core.seats import Holding


def a_tenant(
    name: str,
    running: int = 0,
    waiting: int = 0,
    *,
    tag: float = 0.0,
    weight: float = 1.0,
    peak: int = 0,
) -> Holding:
    band = 0 if weight > 0 else 1
    return Holding(Rank(band, tag, name), running, waiting, max(peak, running + waiting), weight)


HOLDINGS = st.lists(
    st.builds(
        a_tenant,
        st.sampled_from("abcdefgh"),
        st.integers(0, 20),
        st.integers(0, 20),
        tag=st.floats(0, 10),
        weight=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda holding: holding.rank.tenant,
)


@given(st.integers(1, 256), HOLDINGS)
def test_shares_follow_the_weights_and_leave_nobody_without_a_seat(
    total: int, holdings: list[Holding]
) -> None:
    share = seats.shares(total, holdings)
    weights = sum(holding.weight for holding in holdings)
    for holding in holdings:
        mine = share[holding.rank.tenant]
        if holding.weight == 0:
            assert mine == 0
        else:
            assert mine == max(int(total * holding.weight / weights), 1)


def test_a_tenant_with_all_the_seats_leaves_one_for_a_less_served_one_that_was_here_of_late() -> (
    None
):
    holdings = [a_tenant("noisy", 10, 20, tag=5.0), a_tenant("quiet", tag=1.0, peak=1)]
    share = seats.shares(16, holdings)
    assert seats.reserved(holdings, share, holdings[0].rank) == 1


def test_as_many_seats_are_left_as_the_less_served_tenant_used_at_its_peak() -> None:
    holdings = [a_tenant("noisy", 10, 20, tag=5.0), a_tenant("quiet", 1, tag=1.0, peak=4)]
    assert seats.reserved(holdings, seats.shares(16, holdings), holdings[0].rank) == 3


def test_never_more_than_its_share_is_left_for_it() -> None:
    holdings = [a_tenant("noisy", 10, 20, tag=5.0), a_tenant("quiet", tag=1.0, peak=100)]
    assert seats.reserved(holdings, seats.shares(16, holdings), holdings[0].rank) == 8


def test_no_more_is_left_than_all_asked_for_together_and_one_at_least() -> None:
    absent = [a_tenant(f"t{number}", tag=1.0, peak=1) for number in range(8)]
    holdings = [a_tenant("noisy", 10, 20, tag=5.0), *absent]
    share = seats.shares(64, holdings)
    found = [seats.reserved(holdings, share, holdings[0].rank, n) for n in (20, 8, 3, 1, 0, -2)]
    assert found == [8, 8, 3, 1, 1, 1]


def test_nothing_is_left_for_a_tenant_that_was_served_more() -> None:
    holdings = [a_tenant("noisy", 10, 20, tag=1.0), a_tenant("quiet", tag=5.0, peak=4)]
    assert seats.reserved(holdings, seats.shares(16, holdings), holdings[0].rank) == 0


def test_the_most_served_tenant_gives_a_seat_back() -> None:
    holdings = [
        a_tenant("new", 0, 1, tag=0.0),
        a_tenant("some", 6, tag=1.0),
        a_tenant("much", 10, tag=2.0),
    ]
    assert seats.lender(holdings, seats.shares(16, holdings), "new") == "much"


def test_nobody_is_pushed_below_its_share() -> None:
    holdings = [a_tenant("new", 0, 1, tag=0.0), a_tenant("fair", 8, tag=9.0)]
    assert seats.lender(holdings, seats.shares(16, holdings), "new") is None


def test_a_tenant_that_has_its_share_gets_no_seat_of_others() -> None:
    holdings = [a_tenant("here", 8, 3, tag=0.0), a_tenant("much", 9, tag=2.0)]
    assert seats.lender(holdings, seats.shares(16, holdings), "here") is None


def test_a_tenant_of_weight_zero_lends_before_all_others() -> None:
    holdings = [
        a_tenant("new", 0, 1, tag=7.0),
        a_tenant("idle", 4, tag=0.0, weight=0.0),
        a_tenant("much", 12, tag=99.0),
    ]
    assert seats.lender(holdings, seats.shares(16, holdings), "new") == "idle"


@given(st.integers(1, 64), HOLDINGS)
def test_a_lender_keeps_its_share_and_was_served_more(total: int, holdings: list[Holding]) -> None:
    share = seats.shares(total, holdings)
    by_name = {holding.rank.tenant: holding for holding in holdings}
    for asking in holdings:
        name = seats.lender(holdings, share, asking.rank.tenant)
        if name is not None:
            assert by_name[name].running - 1 >= share[name]
            assert by_name[name].rank > asking.rank
