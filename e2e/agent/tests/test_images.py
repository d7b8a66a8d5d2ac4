"""The image map."""

from __future__ import annotations

import pytest

from e2e import paths
from e2e.agent import images

MAP = """
- image: example/*
  entrypoint: [general]
- image: example/engine:*
  entrypoint: ["{venv}/bin/vllm"]
  arguments: [serve]
  path: ["{venv}/bin"]
  env: {THREADS: 1}
  replace: {big/model: "{models}/small"}
  drop: [--gpu-only]
  append: [--dtype=float32]
  user: 65532
"""
PLACES = {"venv": "/v", "bin": "/b", "checkout": "/c", "models": "/m"}


def test_the_last_matching_entry_counts() -> None:
    found = images.parse(MAP, PLACES)
    engine = images.find(found, "example/engine:1")
    other = images.find(found, "example/other")
    assert engine is not None
    assert other is not None
    assert (engine.entrypoint, other.entrypoint) == (("/v/bin/vllm",), ("general",))
    assert images.find(found, "docker.io/nginx") is None


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ([], [], ["/v/bin/vllm", "serve", "--dtype=float32"]),
        ([], ["x"], ["/v/bin/vllm", "x", "--dtype=float32"]),
        (["vllm"], [], ["vllm", "--dtype=float32"]),
        (["vllm"], ["big/model", "--gpu-only"], ["vllm", "/m/small", "--dtype=float32"]),
    ],
    ids=["image alone", "args", "command", "both, with replacements"],
)
def test_a_command_line_is_made_as_a_runtime_does_and_then_changed_as_listed(
    command: list[str], arguments: list[str], expected: list[str]
) -> None:
    image = images.parse(MAP, PLACES)[1]
    assert image.argv(command, arguments) == expected


def test_an_image_brings_its_search_path_and_its_variables_as_text() -> None:
    image = images.parse(MAP, PLACES)[1]
    assert image.environment() == {"PATH": f"/v/bin:{images.DEFAULT_PATH}", "THREADS": "1"}
    assert image.user == 65532


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- entrypoint: [x]", "entry 0: needs the field `image`"),
        ("- image: a\n- image: b\n  entry: [x]", "entry 1: unknown field 'entry'"),
    ],
)
def test_a_bad_map_is_refused_with_entry_and_field(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        images.parse(text, PLACES)


def test_the_map_of_this_checkout_knows_every_image_of_the_product() -> None:
    found = images.load([paths.checkout() / "e2e" / "images.yaml"], PLACES)
    for name in (
        "ghcr.io/tenantry/operator:0.1.0",
        "ghcr.io/tenantry/extender:0.1.0",
        "ghcr.io/tenantry/engine:0.1.0",
        "registry.k8s.io/kube-scheduler:v1.36.3",
    ):
        assert images.find(found, name) is not None
