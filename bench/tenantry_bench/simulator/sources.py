"""Makes the profiles that come with the product, from public measurements.

`python -m tenantry_bench.simulator.sources DATA [OUT]` reads the files that `docs/reference/
simulate.md` names under DATA and writes one YAML file for each profile. The files are committed,
the data is not.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenantry_bench.simulator import fit
from tenantry_bench.simulator.fit import Chunk, Decode, Known, Point
from tenantry_bench.simulator.profiles import Mixed, Profile, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VIDUR: Final = "vidur/profiling__compute__a100__meta-llama__Meta-Llama-3-8B__mlp.csv"
RUNS: Final = "kvwarden/vllm_runs.csv"
LAYERS: Final = 32
LAYER: Final = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj",
    "post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj",
)  # fmt: skip
ONCE: Final = ("embedding", "final_layernorm")
LONGEST: Final = 8192
"""Tokens of the largest step that a profile's table covers by measurement."""
TOLERANCE: Final = 0.006
CONCURRENCY: Final = 64
"""Runs with more requests at once are left out: their client had 100 connections at most."""

# Milliseconds until the first token by prompt length, one request at a time, on the runs of RUNS.
PROMPTS: Final[dict[str, Sequence[Point]]] = {
    "a100": ((785, 75.0), (3089, 235.0), (6161, 483.0), (12_305, 1071.0)),
    "h100": ((785, 55.0), (3089, 99.0), (6161, 196.0), (12_305, 417.0)),
}
# Data sheets: memory bandwidth in GB/s, dense bfloat16 TFLOPS without sparsity.
SHEETS: Final = {
    "a100": (2039.0, 312.0),
    "h100": (3350.0, 989.0),
    "a10g": (600.0, 125.0),
    "l4": (300.0, 121.0),
}
MIXED: Final = Mixed(factor=1.3, above=128)
A10G_SCALE: Final = 0.9
"""On top of the data sheet: with it a simulated first come, first served engine comes near the
throughput that was measured on a real one (VTC's arena trace)."""


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def vidur(data: Path) -> list[Point]:
    """Return the milliseconds of all linear operators by tokens, one GPU, without a fall."""
    points = []
    for row in _rows(data / VIDUR):
        tokens = int(row["num_tokens"])
        if row["num_tensor_parallel_workers"] == "1" and tokens <= LONGEST:
            layer = sum(float(row[f"time_stats.{name}.median"]) for name in LAYER)
            layer += 2 * float(row["time_stats.add.median"])
            points.append((tokens, LAYERS * layer + float(row["time_stats.emb.median"] or 0)))
    return fit.rising(points)


def decodes(data: Path, gpu: str, without: str = "mixed") -> list[Decode]:
    """Return the runs whose time per output token is that of a step of decodes only.

    With equal answers all requests of a wave are in step, so that prompts fall between them.
    `without` names one more workload to leave out, to judge the fit by it.
    """
    found = []
    for row in _rows(data / RUNS):
        count = int(row["concurrency"])
        left_out = row["workload"] in ("mixed", without)
        if row["gpu"] == gpu and not left_out and count <= CONCURRENCY:
            context = float(row["tokens_in_mean"]) + float(row["tokens_out_mean"]) / 2
            found.append(Decode(count, count * context, float(row["tpot_p50_ms"])))
    return found


def _times(
    table: Sequence[Point], sequence_ms: float, context_ms: float, attention_ms: float, mixed: Mixed
) -> Times:
    return Times(
        dense_ms=tuple((n, round(ms, 3)) for n, ms in fit.thinned(table, TOLERANCE)),
        sequence_us=round(sequence_ms * 1e3, 2),
        context_ns=round(context_ms * 1e6, 2),
        prompt_ps=round(attention_ms * 1e9, 1),
        mixed=mixed,
    )


def a100(data: Path, without: str = "mixed") -> Profile:
    """Linear operators from Vidur's table; the rest from runs of vLLM 0.19.1."""
    grown = vidur(data)
    prices = fit.decode(decodes(data, "a100", without), fit.between(grown))
    table = fit.dense(grown, prices.base_ms)
    attention = fit.first_tokens(PROMPTS["a100"], fit.between(table), 2048)
    return Profile(
        name="a100-llama3-8b",
        gpu="NVIDIA A100 80GB",
        model="Llama-3.1-8B in bfloat16",
        calibrated=True,
        source="Growth of the dense part: linear operators of Llama-3-8B on an A100, one GPU "
        "(microsoft/vidur, MIT). One-token step, sequences and context: least squares over runs of "
        "vLLM 0.19.1 with 1 to 64 requests at once (coconut-labs/kvwarden, MIT). Prompt attention: "
        "times to the first token of the same runs. Factor of mixed steps: chosen on the same "
        "runs.",
        kv_tokens=390_000,
        times=_times(table, prices.sequence_ms, prices.context_ms, attention, MIXED),
    )


def h100(data: Path, without: str = "mixed") -> Profile:
    """Decodes from runs of vLLM 0.19.1; the growth of the dense part is the A100's, scaled."""
    grown, chunk = vidur(data), 8192
    peak = SHEETS["a100"][1] / SHEETS["h100"][1]
    attention = a100(data).times.prompt_ps * 1e-9 * peak
    growth, scale = fit.between(grown), peak
    prices = fit.decode(decodes(data, "h100", without), _scaled(growth, scale))
    for _ in range(4):  # the one-token step and the growth depend on each other a little
        scale = fit.growth_scale(PROMPTS["h100"], growth, Known(prices.base_ms, attention, chunk))
        prices = fit.decode(decodes(data, "h100", without), _scaled(growth, scale))
    return Profile(
        name="h100-llama3-8b",
        gpu="NVIDIA H100 80GB SXM",
        model="Llama-3.1-8B in bfloat16",
        calibrated=True,
        source="One-token step, sequences and context: least squares over runs of vLLM 0.19.1 with "
        "1 to 64 requests at once (coconut-labs/kvwarden, MIT). Growth of the dense part: the "
        f"A100's (microsoft/vidur, MIT) times {scale:.3f}, fitted to times to the first token of "
        "the same runs. Prompt attention: the A100's by peak arithmetic.",
        kv_tokens=400_000,
        max_num_seqs=1024,
        max_num_batched_tokens=chunk,
        times=_times(
            fit.dense(grown, prices.base_ms, scale),
            prices.sequence_ms,
            prices.context_ms,
            attention,
            MIXED,
        ),
    )


def _scaled(growth: Callable[[float], float], scale: float) -> Callable[[float], float]:
    return lambda tokens: scale * growth(tokens)


def _layers(path: Path, key: str) -> dict[str, dict[int, float]]:
    found: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row in _rows(path):
        found[row["layer"]][int(row[key])] = float(row["time_us"]) * 1e-3
    return found


def kernels(data: Path, gpu: str) -> tuple[list[Point], list[Decode], list[Chunk]]:
    """Return dense growth, steps of decodes and prompt chunks: sums of a model's kernels."""
    folder = data / "llmservingsim"
    dense = _layers(folder / f"{gpu}_llama31-8b_dense.csv", "tokens")
    ends = _layers(folder / f"{gpu}_llama31-8b_per_sequence.csv", "sequences")
    counts = sorted(dense["qkv_proj"])
    grown = fit.rising(
        [
            (n, sum((1 if name in ONCE else LAYERS) * layer[n] for name, layer in dense.items()))
            for n in counts
        ]
    )
    tokens = fit.between(grown)
    end = fit.between(
        [(n, sum(layer[n] for layer in ends.values())) for n in sorted(ends["lm_head"])]
    )
    steps: list[Decode] = []
    chunks: list[Chunk] = []
    for row in _rows(folder / f"{gpu}_llama31-8b_attention.csv"):
        chunk, before, count, context = (
            int(row[name]) for name in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        )
        ms = LAYERS * float(row["time_us"]) * 1e-3
        if not chunk:
            steps.append(Decode(count, count * context, tokens(count) + end(count) + ms))
        elif not count:
            chunks.append(Chunk(chunk, before, tokens(chunk) + end(1) + ms))
    return grown, steps, chunks


def _rtx(data: Path, file: str, about: dict[str, Any]) -> Profile:
    grown, steps, chunks = kernels(data, file)
    prices = fit.decode(steps, fit.between(grown))
    table = fit.dense(grown, prices.base_ms)
    one = fit.dense(grown, prices.base_ms + prices.sequence_ms)
    attention = fit.attention(chunks, fit.between(one))
    return Profile(
        model="Llama-3.1-8B in bfloat16",
        calibrated=True,
        source="Least squares over sums of kernel times of vLLM 0.19 (casys-kaist/LLMServingSim, "
        "MIT): dense, per-sequence and attention layers, without launch gaps. Steps with prompts "
        "and decodes are taken as the sum of both.",
        times=_times(table, prices.sequence_ms, prices.context_ms, attention, Mixed()),
        **about,
    )


def rtx4090(data: Path) -> Profile:
    """Sums of kernels on an RTX 4090."""
    about = {"name": "rtx4090-llama3-8b", "gpu": "NVIDIA RTX 4090 24GB", "kv_tokens": 31_000}
    return _rtx(data, "RTX4090", about)


def rtxpro6000(data: Path) -> Profile:
    """Sums of kernels on an RTX PRO 6000."""
    about = {
        "name": "rtxpro6000-llama3-8b",
        "gpu": "NVIDIA RTX PRO 6000 96GB",
        "kv_tokens": 510_000,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
    }
    return _rtx(data, "RTXPRO6000", about)


def _by_sheet(data: Path, gpu: str, weights_gb: float, kv_bytes: float, scale: float) -> Times:
    """The A100's prices on a GPU of which only the data sheet is known, for another model.

    Reading weights and context goes by bandwidth, all growth by arithmetic. `weights_gb` and
    `kv_bytes` (a token) are the model's; the A100's were 15.0 GB and 131,072 bytes.
    """
    base = a100(data).times
    bandwidth, flops = (a / b for a, b in zip(SHEETS["a100"], SHEETS[gpu], strict=True))
    size = weights_gb / 15.0
    first = base.dense_ms[0][1]
    table = [
        (n, scale * size * (first * bandwidth + (ms - first) * flops)) for n, ms in base.dense_ms
    ]
    return _times(
        table,
        base.sequence_us * 1e-3 * scale,
        base.context_ns * 1e-6 * bandwidth * (kv_bytes / 131_072) * scale,
        base.prompt_ps * 1e-9 * flops * scale,
        base.mixed,
    )


def a10g(data: Path) -> Profile:
    """Like the engine of VTC's experiments."""
    return Profile(
        name="a10g-llama2-7b",
        gpu="like NVIDIA A10G 24GB",
        model="Llama-2-7B in float16",
        calibrated=False,
        source="The profile a100-llama3-8b by data sheet (600 GB/s, 125 TFLOPS), times "
        f"{A10G_SCALE}: an engine like that of VTC's experiments, to compare arms on, not times.",
        kv_tokens=10_000,
        times=_by_sheet(data, "a10g", 13.5, 524_288, A10G_SCALE),
    )


def l4(data: Path) -> Profile:
    """By data sheet only."""
    return Profile(
        name="l4-qwen2.5-7b",
        gpu="NVIDIA L4 24GB",
        model="Qwen2.5-7B in bfloat16",
        calibrated=False,
        source="The profile a100-llama3-8b by data sheet (300 GB/s, 121 TFLOPS). Nothing was "
        "measured on an L4.",
        kv_tokens=70_000,
        times=_by_sheet(data, "l4", 13.3, 57_344, 1.0),
    )


PROFILES: Final = (a100, h100, a10g, rtx4090, rtxpro6000, l4)


def text(profile: Profile) -> str:
    """Return the profile as YAML that a person can read: the table in lines of some points."""
    times = profile.times
    points = [f"[{n}, {ms}]" for n, ms in times.dense_ms]
    lines = [", ".join(points[i : i + 6]) for i in range(0, len(points), 6)]
    head = [
        f"{name}: {getattr(profile, name)}"
        for name in ("name", "gpu", "model", "kv_tokens", "block_size", "max_num_seqs")
    ]
    return "\n".join(
        [
            *head,
            f"max_num_batched_tokens: {profile.max_num_batched_tokens}",
            f"calibrated: {str(profile.calibrated).lower()}",
            "source: >-",
            *(f"  {sentence}" for sentence in profile.source.replace(". ", ".\n").splitlines()),
            "times:",
            f"  sequence_us: {times.sequence_us}",
            f"  context_ns: {times.context_ns}",
            f"  prompt_ps: {times.prompt_ps}",
            f"  mixed: {{factor: {times.mixed.factor}, above: {times.mixed.above}}}",
            "  dense_ms: [",
            *(f"    {line}," for line in lines),
            "  ]",
            "",
        ]
    )


def main(argv: Sequence[str]) -> int:
    """Write the profiles; the default for OUT is where the product looks for them."""
    if len(argv) not in (1, 2) or not Path(argv[0]).is_dir():
        print("use: python -m tenantry_bench.simulator.sources DATA [OUT]", file=sys.stderr)  # noqa: T201
        return 2
    out = Path(argv[1]) if len(argv) > 1 else Path(__file__).parent.parent / "profiles"
    for make in PROFILES:
        profile = make(Path(argv[0]))
        (out / f"{profile.name}.yaml").write_text(text(profile), encoding="utf-8")
        print(profile.name)  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
