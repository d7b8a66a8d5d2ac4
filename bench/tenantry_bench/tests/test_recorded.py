"""A trace is read whole, or each line that cannot be used is named by its number."""

import pytest

from tenantry_bench.errors import BadInputError
from tenantry_bench.recorded import read_trace

GOOD = '{"id": "a-0", "tenant": "a", "t": 0.5, "prompt": 9, "max_tokens": 8, "out": 5}'


def test_a_request_is_read_with_its_optional_fields() -> None:
    extra = '"hash_ids": [1, 2], "class": "chat", "deadline": 2.5, "priority": -1, "n": 2'
    (line,) = read_trace(GOOD[:-1] + f', {extra}, "cancel_at": 1.0, "structured": true}}', "t")
    assert (line.hash_ids, line.traffic_class, line.priority, line.n) == ((1, 2), "chat", -1, 2)


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ('"out": 5', 5),
        ('"max_tokens": 8', 8),
        ('"max_tokens": 8, "out": 5', 5),
        ('"max_tokens": null, "out": 5', 5),
        ('"max_tokens": 4, "out": 5', 4),
        ('"max_tokens": 0, "out": 0', 0),
    ],
)
def test_the_length_of_the_answer_is_out_within_max_tokens(fields: str, output: int) -> None:
    (line,) = read_trace(f'{{"t": 0, "prompt": 1, {fields}}}', "t")
    assert line.output == output


def test_a_request_may_have_no_tenant_and_an_id_may_come_twice() -> None:
    lines = read_trace(
        f'{GOOD}\n{GOOD}\n\n{{"tenant": null, "t": 0, "prompt": 1, "out": 1}}\n', "t"
    )
    assert [line.tenant for line in lines] == ["a", "a", None]


@pytest.mark.parametrize(
    "bad",
    [
        "nonsense",
        "[]",
        '{"prompt": 1, "out": 1}',
        '{"t": -1, "prompt": 1, "out": 1}',
        '{"t": "soon", "prompt": 1, "out": 1}',
        '{"t": 0, "prompt": 0, "out": 1}',
        '{"t": 0, "prompt": 1.5, "out": 1}',
        '{"t": 0, "prompt": 1}',
        '{"t": 0, "prompt": 1, "out": -1}',
        '{"t": 0, "prompt": 1, "out": 1, "tenant": ""}',
        '{"t": 0, "prompt": 1, "out": 1, "tenannt": "a"}',
        '{"t": NaN, "prompt": 1, "out": 1}',
    ],
)
def test_a_line_that_cannot_be_used_is_named_by_its_number(bad: str) -> None:
    with pytest.raises(BadInputError, match="line 2"):
        read_trace(f"{GOOD}\n{bad}\n{GOOD}\n", "t")


def test_every_bad_line_is_named_and_many_are_counted() -> None:
    with pytest.raises(BadInputError, match=r"line 1: .*line 10: .*and 5 more"):
        read_trace("{}\n" * 15, "t")


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(BadInputError, match="no request"):
        read_trace("\n\n", "t")
