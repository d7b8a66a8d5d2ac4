"""Profiles are made from files of measurements that were made up, so that the prices are known."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry_bench.simulator import profiles, sources
from tenantry_bench.simulator.profiles import Costs


def dense(tokens: int) -> float:
    return 9.0 + 0.06 * max(tokens - 128, 0)


def write(path: Path, head: str, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *lines]))


def vidur(folder: Path) -> None:
    names = [f"time_stats.{each}.median" for each in (*sources.LAYER, "add", "emb")]
    rows = [
        [str(n), str(gpus), *[str(dense(n) / 32 / 8)] * 8, "0", "0"]
        for n in (1, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
        for gpus in (1, 2)
    ]
    write(
        folder / sources.VIDUR,
        ",".join(["num_tokens", "num_tensor_parallel_workers", *names]),
        [",".join(row) for row in rows],
    )


def runs(folder: Path) -> None:
    head = "gpu,workload,concurrency,tokens_in_mean,tokens_out_mean,tpot_p50_ms,e2e_p50_ms"
    rows = []
    for gpu, base in (("a100", 11.0), ("h100", 6.0)):
        for workload, prompt in (("fixed", 400), ("sharegpt", 100), ("mixed", 4000)):
            for count in (1, 8, 32, 64, 128):
                ms = base + 0.04 * count + 8e-5 * count * (prompt + 128)
                ms += 50 if workload == "mixed" or count > 64 else 0  # must not be looked at
                rows.append(f"{gpu},{workload},{count},{prompt},256,{ms},{256 * ms}")
    write(folder / sources.RUNS, head, rows)


def kernels(folder: Path, gpu: str) -> None:
    stem = folder / "llmservingsim" / f"{gpu}_llama31-8b"
    layers = ("qkv_proj", "embedding", "final_layernorm")
    write(
        stem.with_name(f"{stem.name}_dense.csv"),
        "layer,tokens,time_us",
        [f"{name},{n},{n * 2 + 100}" for name in layers for n in (1, 16, 128, 512, 2048)],
    )
    write(
        stem.with_name(f"{stem.name}_per_sequence.csv"),
        "layer,sequences,time_us",
        [f"lm_head,{n},{1000 + 10 * n}" for n in (1, 16, 256)],
    )
    write(
        stem.with_name(f"{stem.name}_attention.csv"),
        "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
        [f"0,0,{n},{kv},{5 + 0.003 * n * kv}" for n in (1, 16, 128) for kv in (64, 1024)]
        + [f"{c},{kv},0,0,{5 + 1e-4 * c * (kv + c / 2)}" for c in (64, 512) for kv in (0, 4096)]
        + ["64,64,8,64,1000"],
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    vidur(folder)
    runs(folder)
    for gpu in ("RTX4090", "RTXPRO6000"):
        kernels(folder, gpu)
    return folder


def test_an_a100_has_the_prices_that_its_runs_were_made_of(data: Path) -> None:
    times = sources.a100(data).times
    assert times.dense_ms[0][1] == pytest.approx(11.0)
    assert times.sequence_us == pytest.approx(40.0)
    assert times.context_ns == pytest.approx(80.0)
    assert Costs(times).dense(256) == pytest.approx(0.011 + 0.06e-3 * 128)


def test_a_workload_can_be_left_out_of_the_fit(data: Path) -> None:
    assert {step.context for step in sources.decodes(data, "a100", "fixed")} == {
        count * 228.0 for count in (1, 8, 32, 64)
    }


def test_kernel_sums_give_the_prices_of_context_and_prompts(data: Path) -> None:
    times = sources.rtx4090(data).times
    assert times.context_ns == pytest.approx(32 * 3.0, rel=0.01)
    assert times.prompt_ps == pytest.approx(32 * 100.0, rel=0.02)
    assert times.sequence_us == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize("make", sources.PROFILES, ids=lambda make: make.__name__)
def test_what_is_written_is_read_again(
    data: Path, make: Callable[[Path], profiles.Profile]
) -> None:
    profile = make(data)
    assert profiles.parse(sources.text(profile), "again") == profile


def test_every_shipped_profile_is_one_that_is_made(data: Path, tmp_path: Path) -> None:
    assert sources.main([str(data), str(tmp_path)]) == 0
    assert tuple(sorted(file.stem for file in tmp_path.iterdir())) == profiles.shipped()


@pytest.mark.parametrize("argv", [[], ["/no/such"], ["a", "b", "c"]])
def test_a_wrong_call_says_how_to_call(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sources.main(argv) == 2
    assert "DATA" in capsys.readouterr().err
