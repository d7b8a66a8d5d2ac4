"""The same seed sends the same requests, whoever else is there and whichever arm it is."""

import json
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

import pytest

from tenantry_bench.load import Load, find, parse
from tenantry_bench.plan import TOKEN_IDS, Plan, Request, word


def load(text: str) -> Load:
    return parse(text, "x", Path(), "x")


def quiet(plan: Plan) -> list[Request]:
    return list(plan.open_loop(plan.load.tenants[0]))


NOISY = find("noisy-neighbour")


def shape(request: Request) -> tuple[float | None, int, int]:
    return (request.planned, request.prompt_tokens, request.output_tokens)


def test_the_same_seed_gives_the_same_requests_to_the_byte() -> None:
    assert quiet(Plan(NOISY, 7, "m")) == quiet(Plan(NOISY, 7, "m"))


def test_another_seed_gives_other_arrivals() -> None:
    assert quiet(Plan(NOISY, 7, "m"))[0].planned != quiet(Plan(NOISY, 8, "m"))[0].planned


def test_a_tenant_alone_sends_what_it_sends_beside_others() -> None:
    alone = find("quiet-alone")
    assert quiet(Plan(alone, 1, "m")) == quiet(Plan(NOISY, 1, "m"))


def test_another_arm_has_the_same_shapes_but_other_contents() -> None:
    stock, ours = quiet(Plan(NOISY, 1, "m", "stock")), quiet(Plan(NOISY, 1, "m", "ours"))
    assert [*map(shape, stock)] == [*map(shape, ours)]
    assert not {request.body for request in stock} & {request.body for request in ours}


def test_the_asked_number_of_requests_lies_after_the_warm_up() -> None:
    planned = [request.planned or 0.0 for request in quiet(Plan(NOISY, 1, "m"))]
    assert sum(at >= NOISY.warmup for at in planned) == 150
    assert any(at < NOISY.warmup for at in planned)
    assert planned == sorted(planned)


def test_poisson_arrivals_keep_their_rate_and_are_not_even() -> None:
    text = "tenants: [{name: a, rate: 50, requests: 5000, prompt: 1, output: 1}]"
    planned = [request.planned or 0.0 for request in quiet(Plan(load(text), 1, "m"))]
    gaps = [b - a for a, b in pairwise(planned)]
    assert fmean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert fmean([(gap * 50) ** 2 for gap in gaps]) == pytest.approx(2, rel=0.15)


def test_constant_arrivals_are_even() -> None:
    text = """
tenants: [{name: a, process: constant, rate: 10, requests: 3, prompt: 1, output: 1, start: 1}]
"""
    planned = [request.planned for request in quiet(Plan(load(text), 1, "m"))]
    assert planned == pytest.approx([1.1, 1.2, 1.3])


def test_uniform_lengths_stay_within_their_bounds_and_reach_both() -> None:
    noisy = NOISY.tenants[1]
    lengths = {r.prompt_tokens for r in islice(Plan(NOISY, 1, "m").closed_loop(noisy), 5000)}
    assert (min(lengths), max(lengths)) == (256, 768)


def test_log_normal_lengths_have_the_asked_mean_and_spread() -> None:
    text = "tenants: [{name: a, connections: 1, prompt: {mean: 200, cv: 0.5}, output: 1}]"
    plan = Plan(load(text), 1, "m")
    found = [r.prompt_tokens for r in islice(plan.closed_loop(plan.load.tenants[0]), 5000)]
    mean = fmean(found)
    assert mean == pytest.approx(200, rel=0.05)
    assert fmean([(n / mean - 1) ** 2 for n in found]) ** 0.5 == pytest.approx(0.5, rel=0.1)


def test_the_body_asks_for_a_stream_of_exactly_so_many_tokens() -> None:
    request = quiet(Plan(NOISY, 1, "m"))[0]
    body = json.loads(request.body)
    assert len(body["prompt"]) == request.prompt_tokens
    assert all(TOKEN_IDS[0] <= token < TOKEN_IDS[1] for token in body["prompt"])
    assert (body["model"], body["max_tokens"], body["ignore_eos"], body["stream"]) == (
        "m",
        request.output_tokens,
        True,
        True,
    )


def test_text_prompts_are_words_of_letters_one_for_each_token() -> None:
    text = "text: true\ntenants: [{name: a, rate: 1, requests: 1, prompt: 5, output: 1}]"
    words = json.loads(quiet(Plan(load(text), 1, "m"))[0].body)["prompt"].split()
    assert len(words) == 5
    assert all(w.isalpha() and len(w) == 3 for w in words)
    assert len({word(token) for token in range(*TOKEN_IDS)}) == TOKEN_IDS[1] - TOKEN_IDS[0]


def test_a_trace_is_sent_by_time_and_equal_times_keep_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [("b", 2.0), ("a", 1.0), ("c", 2.0)]
    rows = [json.dumps({"tenant": n, "t": t, "prompt": 4, "out": 2}) for n, t in lines]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    sent = list(Plan(find(str(tmp_path / "t.jsonl")), 1, "m").recorded())
    assert [(request.tenant, request.planned) for request in sent] == [("a", 1), ("b", 2), ("c", 2)]


def test_requests_of_a_trace_share_the_prefix_blocks_that_they_name(tmp_path: Path) -> None:
    rows = [{"t": 0, "prompt": 700, "out": 2, "hash_ids": [5, n]} for n in (6, 7)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sent = list(Plan(find(str(tmp_path / "t.jsonl")), 1, "m").recorded())
    one, two = (json.loads(request.body)["prompt"] for request in sent)
    assert one[:512] == two[:512]
    assert one[512:] != two[512:]
    assert len(one) == 700


def test_what_a_trace_says_about_priority_and_copies_is_sent(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"t": 0, "prompt": 1, "out": 2, "priority": 3, "n": 2}')
    (request,) = Plan(find(str(tmp_path / "t.jsonl")), 1, "m").recorded()
    body = json.loads(request.body)
    assert (body["priority"], body["n"]) == (3, 2)
