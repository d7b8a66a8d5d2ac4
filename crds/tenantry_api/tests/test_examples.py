"""The examples are valid policies, and say what their comments say."""

from pathlib import Path

import pytest
import yaml

from tenantry_api import parse
from tenantry_api.policy import Mode

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def test_there_are_examples() -> None:
    assert {"two-tenants.yaml", "noisy-neighbour.yaml", "stock.yaml"} <= {f.name for f in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_is_a_policy_without_a_namespace(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert parse.text(source, path.name).spec.tenants
    assert "namespace" not in yaml.safe_load(source)["metadata"]


def test_stock_differs_from_the_noisy_neighbour_in_name_and_mode_alone() -> None:
    noisy, stock = (
        yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
        for name in ("noisy-neighbour.yaml", "stock.yaml")
    )
    assert stock["spec"]["scheduling"].pop("mode") == Mode.OFF
    stock["metadata"]["name"] = noisy["metadata"]["name"]
    assert stock == noisy
