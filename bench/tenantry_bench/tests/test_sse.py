"""What counts as a token, and when it came, however the bytes are cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_bench.sse import Stream


def delta(**said: Any) -> bytes:
    return chunk({"choices": [{"index": 0, "delta": said, "finish_reason": None}]})


def chunk(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def fed(*reads: tuple[float, bytes]) -> Stream:
    stream = Stream()
    for now, data in reads:
        stream.feed(data, now)
    return stream


FINISH = chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("data", "is_token"),
    [
        (delta(role="assistant", content=""), False),
        (delta(role="assistant", content=None), False),
        (delta(content="a"), True),
        (delta(reasoning_content="hm"), True),
        (delta(reasoning="hm"), True),
        (delta(tool_calls=[{"index": 0}]), True),
        (delta(tool_calls=[]), False),
        (chunk({"choices": [{"index": 0, "text": "a"}]}), True),
        (chunk({"choices": [{"index": 0, "text": ""}]}), False),
        (chunk({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}), False),
        (b": keep-alive\n\n", False),
        (b"event: ping\n\n", False),
        (FINISH, False),
        (DONE, False),
    ],
)
def test_only_an_event_that_says_something_is_a_token(data: bytes, is_token: bool) -> None:
    assert fed((0.5, data)).token_times == ([0.5] if is_token else [])


def test_the_first_token_is_not_the_role_and_gaps_are_between_tokens() -> None:
    stream = fed(
        (0.03, delta(role="assistant", content="")),
        (0.05, b": keep-alive\n\n"),
        (0.30, delta(reasoning_content="Well")),
        (0.34, delta(content="no")),
        (0.50, delta(content=", not at all")),
        (0.51, FINISH),
        (0.52, chunk({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 6}})),
        (0.53, DONE),
    )
    assert stream.role_time == 0.03
    assert stream.token_times == [0.30, 0.34, 0.50]
    assert stream.gaps == pytest.approx([0.04, 0.16])
    assert stream.time_per_token == pytest.approx(0.2 / 5)
    assert (stream.prompt_tokens, stream.output_tokens, stream.complete) == (4, 6, True)


def test_without_usage_the_time_per_token_is_unknown() -> None:
    stream = fed((0.1, delta(content="a")), (0.2, delta(content="b")), (0.3, DONE))
    assert (stream.time_per_token, stream.output_tokens) == (None, None)


def test_a_cut_event_counts_when_it_is_whole_and_two_in_one_read_are_two() -> None:
    whole = delta(content="naïve ☃").replace(b"\n\n", b"\r\n\r\n")
    stream = fed((0.10, whole[:11]), (0.15, whole[11:]), (0.20, delta(content="a") * 2))
    assert stream.token_times == [0.15, 0.20, 0.20]
    assert stream.gaps == pytest.approx([0.05, 0.0])


def test_an_error_in_the_stream_is_kept_with_its_message() -> None:
    stream = fed(
        (0.1, delta(content="a")), (0.2, chunk({"error": {"message": "gone", "code": 500}}))
    )
    assert (stream.error, stream.complete) == ("gone", False)


@pytest.mark.parametrize(
    "data",
    [
        b"data: {half\n\n",
        b"data: 7\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        chunk({"choices": 5}),
        chunk({"choices": [None]}),
        chunk({"choices": ["abc"]}),
        chunk({"choices": [{"delta": "x"}]}),
        b"x" * 1_100_000,
    ],
    ids=[
        "not JSON",
        "a number",
        "deep",
        "choices",
        "null",
        "a text",
        "delta",
        "a line without end",
    ],
)
def test_an_event_that_is_no_chunk_is_an_error(data: bytes) -> None:
    stream = fed((0.1, data))
    assert stream.error is not None
    assert stream.token_times == []


@pytest.mark.parametrize("count", [None, -1, True, 1.5, "7", float("inf")], ids=str)
def test_a_number_of_tokens_that_is_none_is_unknown(count: object) -> None:
    told = {
        "prompt_tokens": count,
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": count},
    }
    stream = fed((0.1, chunk({"choices": [{"text": "a"}], "usage": told})))
    found = (stream.prompt_tokens, stream.output_tokens, stream.cached_tokens)
    assert found == (None, None, None)


@pytest.mark.parametrize("usage", ["x", 5, {"prompt_tokens_details": 5}], ids=str)
def test_usage_that_is_no_mapping_is_no_usage(usage: object) -> None:
    stream = fed((0.1, chunk({"choices": [{"text": "a"}], "usage": usage})))
    assert (stream.error, stream.output_tokens, stream.token_times) == (None, None, [0.1])


def test_a_stream_that_breaks_off_before_a_token_has_none() -> None:
    stream = fed((0.025, delta(role="assistant", content="")))
    found = (stream.role_time, stream.token_times, stream.gaps, stream.complete)
    assert found == (0.025, [], [], False)


def test_cached_prompt_tokens_are_read_where_the_server_tells_them() -> None:
    told = {
        "prompt_tokens": 9,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    assert fed((0.1, chunk({"choices": [], "usage": told}))).cached_tokens == 8


@given(
    st.lists(st.integers(min_value=1, max_value=400)),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_the_cuts_and_the_line_ends_change_nothing_that_was_said(
    cuts: list[int], end: bytes
) -> None:
    said = delta(role="assistant") + delta(content="a") + b": x\n\n" + delta(content="b") + FINISH
    data = (said + DONE + b":").replace(b"\n", end)
    stream, at = Stream(), 0
    for size in [*cuts, len(data)]:
        stream.feed(data[at : at + size], 1.0)
        at += size
    assert len(stream.token_times) == 2
    assert stream.complete
    assert stream.error is None
