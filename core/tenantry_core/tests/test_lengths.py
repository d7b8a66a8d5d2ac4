import math
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_core.lengths import BUCKETS, EDGES, HESITATION, STEP, TENANTS, Learned, Lengths, Prior
from tenantry_core.tests.lots import Lots

MANY = 4096
ENDED = st.tuples(st.sampled_from("ab"), st.integers(1, 5000), st.integers(1, 3000))
HISTORY = st.lists(ENDED, max_size=30)
Mix = Iterator[tuple[str, int, int]]


def taught(history: list[tuple[str, int, int]]) -> Learned:
    lengths = Learned()
    for ended in history:
        lengths.finished(*ended)
    return lengths


def expected(lengths: Lengths, prompt: int = 100, done: int = 0, tenant: str = "a") -> float:
    return lengths.expect(tenant, prompt, done, 10**9, "r")


def fading(samples: list[int]) -> list[float]:
    """What each sample counts for in a running mean: the definition, told the other way round."""
    weights: list[float] = []
    for n in range(len(samples)):
        step = max(STEP, 1 / (n + 1))
        weights = [weight * (1 - step) for weight in weights] + [step]
    return weights


def told(history: list[tuple[str, int, int]], tenant: str, prompt: int, done: int) -> float:
    """Tokens still to come by the definition, from all samples; `done` is an edge, and those that
    ended before the next one are taken to have done so halfway."""
    upper = done and EDGES[EDGES.index(done) + 1]

    def bucket(tokens: int) -> int:
        return min(int(math.log2(tokens)), BUCKETS - 1)

    part, tokens = Prior().beyond(done)
    groups = (
        [output for _, _, output in history],
        [output for name, _, output in history if name == tenant],
        [out for name, asked, out in history if name == tenant and bucket(asked) == bucket(prompt)],
    )
    for samples in groups:
        trust = len(samples) / (len(samples) + HESITATION)
        weighed = list(zip(samples, fading(samples), strict=True))
        longer = sum(weight for sample, weight in weighed if sample >= done)
        made = sum(
            weight * (sample if sample >= upper else (done + upper) / 2)
            for sample, weight in weighed
            if sample >= done
        )
        part = (1 - trust) * part + trust * longer
        tokens = (1 - trust) * tokens + trust * made
    return max(tokens / part - done, 1.0)


@given(HISTORY, st.integers(1, 5000), st.sampled_from([0, 8, 16, 64, 256, 1024, 4096]))
def test_the_estimate_is_that_of_a_recount_of_all_that_ended(
    history: list[tuple[str, int, int]], prompt: int, done: int
) -> None:
    assert done in EDGES
    assert expected(taught(history), prompt, done) == pytest.approx(
        told(history, "a", prompt, done), rel=1e-6
    )


@given(HISTORY, ENDED, st.integers(0, 10**6), st.integers(-5, 10**6), st.floats(0.01, 0.99))
def test_there_is_always_a_token_to_come_and_never_more_than_the_limit_leaves(
    history: list[tuple[str, int, int]],
    asked: tuple[str, int, int],
    done: int,
    limit: int,
    share: float,
) -> None:
    lengths = taught(history)
    for tokens in (
        lengths.expect(asked[0], asked[1], done, limit, "r"),
        lengths.within(asked[0], asked[1], done, limit, share),
    ):
        assert 1.0 <= tokens <= max(limit - done, 1)


def test_before_anything_ended_the_guess_is_the_priors_mean_and_not_the_limit() -> None:
    assert Learned().expect("new", 100, 0, MANY, "r") == 256.0
    assert Learned(Prior(mean=40.0)).expect("new", 100, 0, MANY, "r") == pytest.approx(40.0)
    assert Learned().expect("new", 100, 0, 20, "r") == 20.0


def test_one_request_moves_the_estimate_and_does_not_make_it() -> None:
    lengths = taught([("a", 100, 10)])
    assert 10.0 < expected(lengths) < 256.0
    assert expected(lengths) < expected(lengths, prompt=4000) < expected(lengths, tenant="b") < 256


def test_who_the_request_is_makes_no_difference() -> None:
    lengths = taught([("a", 100, 10)] * 9)
    assert lengths.expect("a", 100, 0, MANY, "r1") == lengths.expect("a", 100, 0, MANY, "r2")


def test_one_that_ended_without_any_output_teaches_nothing() -> None:
    lengths = taught([("a", 100, 0), ("a", 100, -1)])
    assert lengths.evidence("a") == 0
    assert expected(lengths) == 256.0


def test_one_that_outlives_all_known_ones_has_more_to_come_the_longer_it_runs() -> None:
    lengths = taught([("a", 100, 90 + each) for each in range(20)])
    left = [expected(lengths, done=done) for done in (0, 128, 512, 2048, 8192)]
    assert 90 < left[0] < 125
    assert left[1:] == sorted(left[1:])
    assert 2048 < left[-1] < 8192


def test_of_two_kinds_of_answers_the_long_kind_is_seen_once_the_short_ones_would_have_ended() -> (
    None
):
    lengths = taught([("a", 100, length) for _ in range(60) for length in (20, 1000)])
    assert expected(lengths) == pytest.approx(510, rel=0.1)
    assert expected(lengths, done=64) == pytest.approx(936, rel=0.1)
    assert expected(lengths, done=512) == pytest.approx(488, rel=0.15)


def test_an_estimate_follows_within_200_requests_when_a_tenant_changes_what_it_does() -> None:
    lengths = taught([("a", 100, 30)] * 500 + [("b", 100, 200)] * 500 + [("a", 100, 600)] * 200)
    assert expected(lengths) == pytest.approx(600, rel=0.05)
    assert expected(lengths, tenant="b") == pytest.approx(200, rel=0.05)


def test_evidence_counts_the_finished_requests_of_the_tenant() -> None:
    lengths = taught([("a", 100, 9), ("a", 9000, 9), ("b", 100, 9)])
    assert [lengths.evidence(tenant) for tenant in "abc"] == [2, 1, 0]


def test_what_is_remembered_is_bounded_and_those_in_use_stay() -> None:
    lengths = Learned()
    for each in range(TENANTS + 200):
        lengths.finished(f"t{each}", 100, 50)
        lengths.finished("busy", 2 ** (each % 40), 50)
    assert lengths.evidence("busy") == TENANTS + 200
    assert lengths.evidence("t0") == 0
    assert lengths.evidence(f"t{TENANTS + 199}") == 1
    assert len(lengths._tenants) == TENANTS
    assert len(lengths._tenants["busy"].buckets) == BUCKETS


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_quantile_holds_for_that_share_of_the_requests(share: float) -> None:
    lots, lengths, held = Lots(1), Learned(), 0
    for number in range(1500):
        output = max(int(lots.lognormal(200, 0.8)), 1)
        held += number >= 500 and output <= lengths.within("a", 100, 0, MANY, share)
        lengths.finished("a", 100, output)
    assert held / 1000 == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_a_quantile_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Learned().within("a", 1, 0, 10, share)


@pytest.mark.parametrize("done", [0.0, 100.0, 1e6])
def test_the_prior_is_what_it_says(done: float) -> None:
    prior = Prior(mean=300.0, shape=3.0)
    part, tokens = prior.beyond(done)
    assert part == pytest.approx((600 / (600 + done)) ** 3)
    assert tokens / part - done == pytest.approx((600 + done) / 2)


# --- against one running mean for all ------------------------------------------------


def two_tenants(seed: int, number: int) -> Mix:
    """Chat, where a long prompt is a long talk with long answers, beside code completion: long
    prompts, short answers."""
    lots = Lots(seed)
    for _ in range(number):
        prompt = max(int(lots.lognormal(1500, 1.0)), 1)
        chat = lots.uniform() < 0.6
        mean = 30.0 if not chat else 100.0 if prompt < 1024 else 360.0
        yield "chat" if chat else "code", prompt, max(int(lots.lognormal(mean, 0.4)), 1)


def errors(
    guess: Callable[[str, int], float], learn: Callable[[str, int, int], None]
) -> list[float]:
    found = []
    for tenant, prompt, output in two_tenants(7, 3000):
        found.append(guess(tenant, prompt) - output)
        learn(tenant, prompt, output)
    return found


class OneMean:
    """One running mean for all."""

    mean, seen = 256.0, 0

    def guess(self, _tenant: str, _prompt: int) -> float:
        return self.mean

    def learn(self, _tenant: str, _prompt: int, output: int) -> None:
        self.mean += max(STEP, 1 / (self.seen + 1)) * (output - self.mean)
        self.seen += 1


def test_the_error_is_far_below_that_of_one_running_mean() -> None:
    lengths, one = Learned(), OneMean()
    ours = errors(
        lambda tenant, prompt: lengths.expect(tenant, prompt, 0, MANY, ""), lengths.finished
    )
    theirs = errors(one.guess, one.learn)
    assert sum(map(abs, ours)) <= 0.55 * sum(map(abs, theirs))
    assert math.hypot(*ours) <= 0.67 * math.hypot(*theirs)


def test_left_tokens_are_right_on_average_at_every_stage() -> None:
    lots, lengths = Lots(3), Learned()
    guessed: dict[int, list[float]] = {32: [], 128: [], 512: []}
    true: dict[int, list[float]] = {32: [], 128: [], 512: []}
    for _ in range(3000):
        output = max(int(lots.lognormal(300, 0.8)), 1)
        for done, guesses in guessed.items():
            if output > done:
                guesses.append(expected(lengths, done=done))
                true[done].append(output - done)
        lengths.finished("a", 100, output)
    for done, guesses in guessed.items():
        assert sum(guesses) == pytest.approx(sum(true[done]), rel=0.1)
