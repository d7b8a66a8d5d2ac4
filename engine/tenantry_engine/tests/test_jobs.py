"""What a request is to the orderings."""

from types import SimpleNamespace
from typing import Any

import pytest

from tenantry_core.lengths import Learned as Lengths
from tenantry_core.ordering import Job, Order
from tenantry_core.stepmodel import Learned, Load, prompt_work
from tenantry_engine.jobs import Jobs, Prices, prices

ROOM = 400_000


def a_request(name: str, prompt: int, *, output: int = 0, priority: int = 0) -> Any:
    return SimpleNamespace(
        request_id=name,
        arrival_time=5.0,
        priority=priority,
        num_tokens=prompt + output,
        num_prompt_tokens=prompt,
        num_output_tokens=output,
        num_preemptions=0,
        max_tokens=4096,
    )


def some_jobs(lengths: Lengths | None = None, cached: int = 0) -> Jobs:
    scheduler = SimpleNamespace(
        cached_tokens=lambda _: cached, blocks=lambda: ROOM // 16, block_size=16
    )
    jobs = Jobs(lengths or Lengths(), Learned(), lambda _: "gold", scheduler)
    jobs.order = Order("Cost")
    return jobs


def seconds(prices: Prices, job: Job) -> float:
    return prices.seconds(job.prompt, job.context, job.length)


def test_the_price_of_a_job_is_about_its_part_of_the_steps_it_will_be_in() -> None:
    model = Learned()
    job = Job("r", 0.0, prompt=256, context=256, length=100.0)
    prompt = model.predict(Load(prefill=256, work=prompt_work(0, 256)))
    step = model.predict(Load(decodes=32, context=32 * 306)) / 32
    assert seconds(prices(model, ROOM), job) == pytest.approx(prompt + 100 * step, rel=0.02)


def test_where_the_cache_is_small_its_tokens_are_what_counts() -> None:
    small = prices(Learned(), 20_000)
    long, wordy = (
        Job("r", 0.0, prompt=prompt, context=prompt, length=length)
        for prompt, length in ((4000, 20.0), (400, 1000.0))
    )
    assert seconds(small, wordy) > 2 * seconds(small, long)
    assert seconds(small, wordy) > 1.5 * seconds(prices(Learned(), ROOM), wordy)


def test_what_is_cached_need_not_be_computed() -> None:
    job = some_jobs(cached=448).job(a_request("r", 512))
    assert (job.prompt, job.context) == (64, 512)
    assert job.seconds < some_jobs().job(a_request("r", 512)).seconds


def test_vllm_s_priority_is_turned_round() -> None:
    assert some_jobs().job(a_request("r", 10, priority=-7)).priority == 7


def test_what_a_client_says_of_a_deadline_is_not_believed() -> None:
    request = a_request("r", 10)
    request.sampling_params = SimpleNamespace(extra_args={"deadline": 0.001, "ttl": 1})
    jobs = some_jobs()
    jobs.order = Order("Deadline")
    assert jobs.job(request).deadline == float("inf")
    assert jobs.key(request) == jobs.key(a_request("r", 10))


def test_max_tokens_is_not_taken_for_a_length() -> None:
    assert some_jobs().job(a_request("r", 10)).length < 1000


def test_keys_are_stale_when_twice_as_much_is_known() -> None:
    jobs = some_jobs()
    stale = [jobs.finished(a_request(f"r{n}", 10, output=20), "gold") for n in range(1, 40)]
    assert [number for number, old in enumerate(stale, start=1) if old] == [1, 2, 4, 8, 16, 32]


def test_a_prediction_that_has_come_true_is_made_anew() -> None:
    lengths = Lengths()
    for _ in range(50):
        lengths.finished("gold", 10, 20)
    jobs = some_jobs(lengths)
    assert jobs.remaining(a_request("r", 10)) == pytest.approx(20, rel=0.3)
    assert jobs.remaining(a_request("r", 10, output=300)) >= 1


def test_a_key_made_anew_is_made_of_what_is_known_by_then() -> None:
    lengths = Lengths()
    jobs = some_jobs(lengths)
    request = a_request("r", 256)
    before = jobs.key(request)
    for _ in range(50):
        lengths.finished("gold", 256, 2000)
    assert jobs.remaining(request) < 1000
    assert jobs.key(request) > before
    assert jobs.remaining(request) > 1000
