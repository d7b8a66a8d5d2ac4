"""Short runs of vLLM's real scheduler: nothing is lost, nothing is known before it happens."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenantry_api.choices import UnknownTenant
from tenantry_bench.simulator import catalogue, main
from tenantry_bench.simulator.profiles import Costs, Mixed, Times
from tenantry_bench.simulator.scenario import Length, Recorded, Shape, Tenant
from tenantry_bench.simulator.tests.small import LONG, SHORT, a_scenario
from tenantry_engine.config import EngineConfig

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

ARMS = ("stock", "stock-priority", "tenantry", "tenantry:FIFO", "VTC", "FIFO")
OTHER_TABLE = Costs(
    Times(
        dense_ms=((1, 3.0), (512, 400.0)),
        sequence_us=1.0,
        context_ns=1.0,
        prompt_ps=1.0,
        mixed=Mixed(),
    )
)
FLOOD = a_scenario(Tenant("a", (SHORT,), burst=20), Tenant("b", (LONG,), burst=40))


@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("kv", [40_000, 4_000], ids=["roomy", "tight"])
def test_every_request_gets_exactly_its_tokens_and_every_block_comes_back(
    world: Any, arm: str, use_async: bool, kv: int
) -> None:
    log, spy = world.watched(a_scenario(), arm, world.options(kv=kv, use_async=use_async))
    assert len(log.records) > 30
    for record in log.records.values():
        assert record.finished
        assert len(record.times) == record.length == record.request.num_output_tokens
        assert record.times == sorted(record.times)
        assert record.times[0] > record.body.t
    pool = spy.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    assert sum(sum(line.output) for line in log.lines) == sum(
        record.length for record in log.records.values()
    )


@pytest.mark.parametrize("arm", ["stock", "tenantry"])
@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_prompt_tokens_are_counted_once_and_done_again_when_preempted(
    world: Any, arm: str, use_async: bool
) -> None:
    chosen = world.options(kv=3_000, use_async=use_async, caching=False)
    log, spy = world.watched(a_scenario(), arm, chosen)
    prompts = sum(record.prompt for record in log.records.values())
    assert sum(sum(line.prompt) for line in log.lines) == prompts
    scheduled = sum(sum(decision.values()) for decision in spy.decisions)
    again = sum(tokens for _, _, tokens in log.recomputed)
    assert log.preemptions
    # Each output token but the last of a request is computed once, to get the next. With two steps
    # under way a request is computed once more after its last token, or loses what was under way.
    once = prompts + sum(record.length - 1 for record in log.records.values())
    slack = 2 * (len(log.records) + len(log.preemptions)) if use_async else 0
    assert once <= scheduled - again <= once + slack


@pytest.mark.parametrize("arm", ["stock", "tenantry"])
def test_the_gpu_time_of_tenants_adds_up_to_the_time_that_steps_took(world: Any, arm: str) -> None:
    log, _ = world.watched(FLOOD, arm, world.options())
    busy = sum(sum(line.gpu) for line in log.lines)
    assert busy == pytest.approx(log.lines[-1].end)  # it was never idle: all came at once


def test_the_same_seed_gives_the_same_bytes_in_every_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["N1", "--duration", "6", "--seeds", "3", "--arms", "stock,tenantry", "-o", "json"]
    assert main.run(argv) == 0
    first = capsys.readouterr().out
    program = "import sys; from tenantry_bench.simulator import main; main.run(sys.argv[1:])"
    other = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program, *argv],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert first == other.stdout
    body = json.loads(first)
    assert body["simulated"] is True
    assert body["profile"] == {"name": "a100-llama3-8b", "calibrated": True}
    assert {row["arm"] for row in body["rows"]} == {"stock", "tenantry"}
    assert body["rows"][0]["preemptions"] == 0
    assert body["engine"]["blocks"] == 24375


@pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])
def test_the_first_decision_is_the_same_with_another_cost_table(
    world: Any, use_async: bool
) -> None:
    chosen = world.options(use_async=use_async)
    _, spy = world.watched(FLOOD, "tenantry", chosen)
    _, other = world.watched(FLOOD, "tenantry", chosen, OTHER_TABLE)
    known = 2 if use_async else 1  # so many steps are scheduled before one has been measured
    assert spy.decisions[:known] == other.decisions[:known]
    assert spy.decisions != other.decisions


def test_decisions_are_the_same_with_other_lengths_until_the_first_request_ends(
    world: Any,
) -> None:
    def requests(output: dict[str, int]) -> Any:
        trace = tuple(
            Recorded(f"{tenant}-{n}", tenant, 0.0, 100 + 37 * n, output[tenant])
            for tenant in ("a", "b")
            for n in range(20)
        )
        return replace(a_scenario(), tenants=(), trace=trace, duration=1.0)

    _, spy = world.watched(requests({"a": 30, "b": 300}), "tenantry", world.options())
    _, other = world.watched(requests({"a": 300, "b": 30}), "tenantry", world.options())
    seen: dict[str, int] = {}
    for mine, others in zip(spy.decisions, other.decisions, strict=False):
        if mine != others:
            break
        for name in mine:
            seen[name] = seen.get(name, 0) + 1
    assert max(seen.values()) >= 30  # somebody had all its 30 tokens before anything differed


def test_no_request_carries_its_true_length(world: Any) -> None:
    log, _ = world.watched(a_scenario(), "tenantry", world.options())
    for record in log.records.values():
        assert record.request.max_tokens == 4096
        assert record.length < 4096
        assert str(record.length) not in record.request.sampling_params.extra_args.values()


def test_an_answer_longer_than_its_limit_is_cut_there(world: Any) -> None:
    trace = (Recorded("x", "a", 0.0, 50, 500, limit=9),)
    log, _ = world.watched(replace(a_scenario(), tenants=(), trace=trace), "stock", world.options())
    assert len(log.records["x"].times) == 9


def test_a_client_that_goes_away_frees_its_place(world: Any) -> None:
    trace = (
        Recorded("goes", "a", 0.0, 50, 4000, cancel_at=1.0),
        Recorded("stays", "a", 0.0, 50, 200),
    )
    scenario = replace(a_scenario(), tenants=(), trace=trace)
    log, spy = world.watched(scenario, "tenantry", world.options())
    assert not log.records["goes"].finished
    assert 1.0 <= log.records["goes"].ended < 1.2
    assert log.records["stays"].finished
    pool = spy.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1


def test_shared_prefixes_are_found_in_the_cache_of_one_tenant_only(world: Any) -> None:
    trace = tuple(
        Recorded(f"{tenant}-{n}", tenant, float(n), 1600, 4, shared=(1, 2, 3))
        for n in range(3)
        for tenant in ("a", "b")
    )
    scenario = replace(a_scenario(), tenants=(), trace=trace)
    outcome = world.judged(scenario, "stock", world.options())
    assert {s.counts["cached"] for s in outcome.samples.values()} == {2 * 3 * 512}


@pytest.mark.parametrize("arm", ["stock", "tenantry"])
def test_every_request_of_a_trace_has_an_outcome(world: Any, arm: str) -> None:
    trace = (
        Recorded("fine", "a", 0.0, 100, 20),
        Recorded("no engine takes it", "a", 0.1, 500_000, 64, refused=True),
        Recorded("hangs up", "b", 0.2, 100, 4000, cancel_at=0.5),
        Recorded("goes on", "b", 0.3, 100, 20),
    )
    scenario = replace(a_scenario(), tenants=(), trace=trace, drain=True, duration=1.0)
    samples = world.judged(scenario, arm, world.options()).samples
    ends = {
        tenant: {end: sample.counts[end] for end in ("arrived", "finished", "refused", "failed")}
        for tenant, sample in samples.items()
    }
    assert ends == {
        "a": {"arrived": 2, "finished": 1, "refused": 1, "failed": 0},
        "b": {"arrived": 2, "finished": 1, "refused": 0, "failed": 1},
    }
    assert samples["a"].counts["prompt"] == 100


def test_a_request_that_can_never_fit_does_not_stop_the_clock(world: Any) -> None:
    trace = (Recorded("huge", "a", 0.0, 9_000, 5),)
    scenario = replace(a_scenario(), tenants=(), trace=trace, drain=False, duration=5.0)
    outcome = world.judged(scenario, "stock", world.options(kv=4_000))
    assert outcome.samples["a"].counts["unfinished"] == 1
    assert 0 < outcome.idle_turns < 200


def test_a_request_that_can_never_fit_does_not_stop_other_tenants(world: Any) -> None:
    huge = Recorded("huge", "a", 0.0, 9_000, 5)
    others = tuple(Recorded(f"b-{n}", "b", 0.1 * n, 50, 20) for n in range(10))
    scenario = replace(a_scenario(), tenants=(), trace=(huge, *others), drain=False, duration=5.0)
    outcome = world.judged(scenario, "tenantry", world.options(kv=4_000))
    counts = outcome.samples["a"].counts
    assert counts["refused"] + counts["unfinished"] == 1
    assert outcome.samples["b"].counts["finished"] == 10


def test_alone_is_each_tenant_without_the_others_and_dedicated_is_slower(world: Any) -> None:
    scenario, chosen = a_scenario(), world.options()
    alone = world.judged(scenario, "alone", chosen)
    dedicated = world.judged(scenario, "dedicated", chosen)
    shared = world.judged(scenario, "stock", chosen, dedicated)
    assert [*alone.samples] == ["light", "heavy"]
    light = alone.samples["light"].itl.summary()
    assert light.mean < dedicated.samples["light"].itl.summary().mean
    assert light.mean < shared.samples["light"].itl.summary().mean
    assert set(alone.tokens) == set(shared.tokens)
    assert shared.samples["light"].due == dedicated.samples["light"].counts["output"]


def test_a_closed_loop_keeps_its_number_in_flight(world: Any) -> None:
    scenario = a_scenario(Tenant("a", (SHORT,), in_flight=5), seconds=4.0, drain=False)
    run = world.ran(scenario, "stock", world.options())
    (log,) = run.logs
    for at in (1.0, 2.0, 3.0):
        open_ = [r for r in log.records.values() if r.body.t <= at < (r.ended or at + 1)]
        assert len(open_) == 5


@pytest.mark.parametrize("arm", ["tenantry", "tenantry:FIFO"])
def test_weights_of_backlogged_tenants_are_about_their_shares_of_gpu_time(
    world: Any, arm: str
) -> None:
    kind = Shape(Length(200, 0.3), Length(40, 0.3))
    tenants = (
        Tenant("one", (kind,), in_flight=40),
        Tenant("three", (kind,), in_flight=40, weight=3.0),
    )
    scenario = replace(a_scenario(*tenants, seconds=30.0, drain=False), window=(5.0, 30.0))
    outcome = world.judged(scenario, arm, world.options())
    parts = {name: sample.gpu_seconds for name, sample in outcome.samples.items()}
    assert parts["three"] / sum(parts.values()) == pytest.approx(0.75, abs=0.05)


def test_a_report_holds_picture_and_table(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    argv = ["N1", "--duration", "4", "--seeds", "3,4", "--arms", "stock", "--report", str(file)]
    assert main.run(argv) == 0
    text = file.read_text()
    assert "data:image/png;base64," in text
    assert "Simulated, not measured on a GPU" in text
    assert "service/s" in text


@pytest.mark.parametrize(
    ("unknown", "refused"), [(UnknownTenant.REFUSE, True), (UnknownTenant.DEFAULT, False)]
)
def test_tenants_that_the_policy_does_not_name_are_refused_or_are_everybody(
    world: Any, unknown: UnknownTenant, refused: bool
) -> None:
    policy = EngineConfig(tenants=("light",), weights={"light": 1.0}, unknown_tenant=unknown)
    chosen = replace(world.options(), policy=policy)
    outcome = world.judged(a_scenario(), "tenantry", chosen)
    heavy, light = (outcome.samples[name].counts for name in ("heavy", "light"))
    assert heavy["refused"] == (heavy["arrived"] if refused else 0)
    assert light["finished"] == light["arrived"] > 0


def test_the_example_of_the_reference_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "simulate.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    tenants = tuple(Tenant(name, (SHORT,), rate=0.5) for name in ("w1", "w2", "w4"))
    shorter = a_scenario(*tenants, seconds=90.0)
    monkeypatch.setattr(catalogue, "SCENARIOS", {"N6-mixed": shorter})
    exec(example, {})  # noqa: S102 - our own page
    assert len(capsys.readouterr().out.splitlines()) == 4
