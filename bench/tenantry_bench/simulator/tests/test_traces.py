"""Trace files and folders of public data as scenarios."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator import catalogue, public, traces

LINE: dict[str, Any] = {"id": "a-0", "tenant": "a", "t": 0.5, "prompt": 100, "out": 7}


def written(folder: Path, *lines: object) -> Path:
    file = folder / "mine.jsonl"
    file.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return file


def test_a_trace_is_a_scenario_that_runs_to_its_end(tmp_path: Path) -> None:
    late = {**LINE, "id": "b-0", "tenant": "b", "t": 9.0, "max_tokens": 5}
    scenario = traces.scenario(written(tmp_path, late, LINE))
    assert (scenario.name, scenario.drain, scenario.names) == ("mine", True, ("a", "b"))
    first, second = scenario.trace
    assert (first.t, first.output, first.limit) == (0.5, 7, 4096)
    assert (second.output, second.limit) == (7, 5)
    assert scenario.duration > 9.0


def test_an_answer_without_a_limit_gets_one_that_holds_it(tmp_path: Path) -> None:
    (each,) = traces.scenario(written(tmp_path, {**LINE, "out": 5000})).trace
    assert each.limit == 5000


def test_several_answers_are_several_requests(tmp_path: Path) -> None:
    found = traces.scenario(written(tmp_path, {**LINE, "n": 3})).trace
    assert [each.name for each in found] == ["a-0/0", "a-0/1", "a-0/2"]


def test_requests_without_tenant_and_id_are_everybodys(tmp_path: Path) -> None:
    bare = {"t": 0, "prompt": 5, "max_tokens": 6, "hash_ids": [1, 2], "priority": 3}
    (each,) = traces.scenario(written(tmp_path, bare)).trace
    assert (each.tenant, each.name, each.output) == ("default", "request-1", 6)
    assert (each.shared, each.priority) == ((1, 2), 3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no request in it"),
        (["{"], "line 1"),
        ([LINE, {**LINE, "t": -1}], "line 2: t"),
        ([LINE, "", {**LINE, "prompt": 0}], "line 3: prompt"),
        ([{"t": 1, "prompt": 5}], "line 1: give out or max_tokens"),
    ],
    ids=["empty", "no JSON", "time", "after a blank line", "no length"],
)
def test_a_line_that_cannot_be_used_is_told(
    tmp_path: Path, lines: list[object], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        traces.scenario(written(tmp_path, *lines))


def test_an_id_that_is_given_twice_makes_two_requests_of_two_tenants(tmp_path: Path) -> None:
    lines = [LINE, {**LINE, "tenant": "b"}, {**LINE, "id": "a-0#2"}, {**LINE, "t": 0.1}]
    scenario = traces.scenario(written(tmp_path, *lines))
    assert sorted((each.name, each.tenant) for each in scenario.trace) == [
        ("a-0", "a"),
        ("a-0#2", "a"),
        ("a-0#3", "b"),
        ("a-0#4", "a"),
    ]
    assert scenario.text.endswith("(not in order of time; 2 with an id that another has)")


def test_what_no_engine_takes_is_a_refused_request_and_no_bad_line(tmp_path: Path) -> None:
    lines = [LINE, {**LINE, "id": "b", "prompt": 200_000}, {**LINE, "id": "c", "max_tokens": 0}]
    scenario = traces.scenario(written(tmp_path, *lines))
    assert [each.refused for each in scenario.trace] == [False, True, True]
    assert scenario.text.endswith("(2 of no length that the engine takes, which it refuses)")


def azure(folder: Path, text: str = "TIMESTAMP,ContextTokens,GeneratedTokens\nx,100,7\n") -> Path:
    (folder / "azure").mkdir()
    for name in public.AZURE:
        (folder / name).write_text(text)
    return folder


def test_public_lengths_replace_their_look_alikes(tmp_path: Path) -> None:
    made_up = catalogue.SCENARIOS["N4-azure"]
    found = public.filled(made_up, azure(tmp_path))
    assert made_up.synthetic
    assert not found.synthetic
    assert [kind.pairs for kind in found.tenants[0].shapes] == [((100, 7),), ((100, 7),)]


def test_public_clients_are_the_busiest_of_the_busiest_window(tmp_path: Path) -> None:
    (tmp_path / "servegen").mkdir()
    head = "model,client,window_start_s,rate_rps,cv,pattern,mean_in,mean_out"
    rows = [f"m-mid,{n},600,{n + 1},40,Gamma,100,50" for n in range(20)]
    rows += ["m-mid,99,0,50,1,Gamma,100,50", "other,98,600,500,1,Gamma,100,50"]
    rows += ["m-mid,97,600,900,1,Gamma,,"]
    (tmp_path / public.SERVEGEN).write_text("\n".join([head, *rows]))
    found = public.filled(catalogue.SCENARIOS["N7-1.1"], tmp_path).tenants
    assert [tenant.name for tenant in found[:2]] == ["c19", "c18"]
    assert len(found) == 16
    assert {tenant.cv for tenant in found} == {5.0}


def test_scenarios_that_need_no_data_stay_as_they_are(tmp_path: Path) -> None:
    scenario = catalogue.SCENARIOS["N1"]
    assert public.filled(scenario, tmp_path) is scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "no column ContextTokens"), ("ContextTokens,GeneratedTokens\nx,1\n", "'x'")],
    ids=["column", "number"],
)
def test_data_that_cannot_be_used_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        public.filled(catalogue.SCENARIOS["N4-azure"], azure(tmp_path, text))
