"""Two small Llamas with real random weights, made in a second and the same on every machine.

`tiny` (2 layers, 0.9 MB) is for outputs: its greedy tokens depend on the whole prefix, so an
oracle sees a wrong KV block. `small` (4 layers, 16 MB) is for timing: the engine, not HTTP, is its
bottleneck. Both share one tokenizer whose words are letters only: with digits in them the
pre-tokenizer splits every word into unknowns, and prompts differ in hardly anything but length.

torch and tokenizers are imported where a model is written: they take seconds, and most callers
find the folder made.
"""

import itertools
import json
import shutil
import string
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal["tiny", "small"]

VOCABULARY = 1024
FIRST_WORD = 3 + 256
"""The first token id that is a whole word; ids below are special tokens and single bytes."""

RECIPE = "2"
"""Another number makes the models anew in caches that have older ones."""

SPECIAL = ("<unk>", "<s>", "</s>")
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}{% if not loop.last %} {% endif %}"
    "{% endfor %}"
)


@dataclass(frozen=True)
class Shape:
    """The size of a model; lengths in tokens, widths in numbers.

    With `words_only` it never says a single byte: half of those show as no text until the next
    token, and a stream with them has fewer events than tokens.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    positions: int
    words_only: bool = False

    @property
    def head(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


SHAPES: dict[Kind, Shape] = {
    "tiny": Shape(hidden=64, intermediate=128, layers=2, heads=2, positions=2048),
    "small": Shape(
        hidden=256, intermediate=768, layers=4, heads=4, positions=8192, words_only=True
    ),
}


def make(kind: Kind, folder: Path) -> Path:
    """Make the model in `folder`, unless a whole one is there, and return `folder`.

    The folder appears whole or not at all: two processes may call this at the same time.
    """
    shape = SHAPES[kind]
    if _whole(folder):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _write(shape, work)
        work.chmod(0o755)
        try:
            work.rename(folder)
        except OSError:
            if not _whole(folder):
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _whole(folder: Path) -> bool:
    mark = folder / "recipe"
    return mark.is_file() and mark.read_text() == RECIPE


def _write(shape: Shape, folder: Path) -> None:
    (folder / "recipe").write_text(RECIPE)
    (folder / "config.json").write_text(json.dumps(_config(shape), indent=1))
    generation = {"bos_token_id": 1, "eos_token_id": 2}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(shape), indent=1))
    _write_tokenizer(folder)
    _write_weights(shape, folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": shape.positions,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


def _tokenizer_config(shape: Shape) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": SPECIAL[0],
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "model_max_length": shape.positions,
        "chat_template": TEMPLATE,
    }


def words() -> Iterator[str]:
    """The made-up words in the order of their token ids, the first one `FIRST_WORD`."""
    letters = itertools.product(string.ascii_lowercase, repeat=3)
    return ("".join(each) for each in itertools.islice(letters, VOCABULARY - FIRST_WORD))


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415

    alphabet: Sequence[str] = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*SPECIAL, *alphabet, *(f"\u0120{word}" for word in words())]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def _layer(shape: Shape) -> list[tuple[str, tuple[int, int], float]]:
    """Name, shape and scale of each matrix of a layer, in the order in which they are drawn."""
    wide, inner = shape.hidden, shape.intermediate
    square = (wide, wide)
    return [
        ("self_attn.q_proj", square, 0.3),
        ("self_attn.k_proj", square, 0.3),
        ("self_attn.v_proj", square, 0.3),
        ("self_attn.o_proj", square, 0.6),
        ("mlp.gate_proj", (inner, wide), 0.1),
        ("mlp.up_proj", (inner, wide), 0.1),
        ("mlp.down_proj", (wide, inner), 0.1),
    ]


def _write_weights(shape: Shape, folder: Path) -> None:
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)

    def draw(size: tuple[int, int], scale: float) -> Any:
        return torch.randn(size, generator=generator) * scale

    table = (VOCABULARY, shape.hidden)
    tensors = {"model.embed_tokens.weight": draw(table, 1.0), "lm_head.weight": draw(table, 1.0)}
    if shape.words_only:
        # A logit of 0 is never the largest of some hundreds that are drawn.
        tensors["lm_head.weight"][:FIRST_WORD] = 0.0
    ones = torch.ones(shape.hidden)
    for number in range(shape.layers):
        prefix = f"model.layers.{number}."
        for name, size, scale in _layer(shape):
            tensors[f"{prefix}{name}.weight"] = draw(size, scale)
        tensors[f"{prefix}input_layernorm.weight"] = ones.clone()
        tensors[f"{prefix}post_attention_layernorm.weight"] = ones.clone()
    tensors["model.norm.weight"] = ones.clone()
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def main(argv: Sequence[str]) -> int:
    """`python -m e2e.models KIND FOLDER`: make one model and print its folder."""
    kinds: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
    if len(argv) != 2 or argv[0] not in kinds:
        print(f"use: python -m e2e.models {'|'.join(SHAPES)} FOLDER", file=sys.stderr)  # noqa: T201
        return 2
    print(make(kinds[argv[0]], Path(argv[1]).absolute()))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
