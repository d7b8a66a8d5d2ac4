"""Scenarios from public data in a folder, where the catalogue has look-alikes without it.

The folder holds `azure/AzureLLMInferenceTrace_{conv,code}.csv` and `servegen/clients_summary.csv`;
`docs/reference/simulate.md` says where they come from.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tenantry_bench.errors import BadInputError
from tenantry_bench.simulator.scenario import Shape, Tenant, shape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tenantry_bench.simulator.scenario import Scenario

AZURE: Final = ("azure/AzureLLMInferenceTrace_conv.csv", "azure/AzureLLMInferenceTrace_code.csv")
SERVEGEN: Final = "servegen/clients_summary.csv"
MODEL: Final = "m-mid"
CLIENTS: Final = 16
BURSTIEST: Final = 5.0
"""A cv above it is taken for it: beyond, ten minutes hold one burst or none."""


def filled(scenario: Scenario, data: Path) -> Scenario:
    """Return the scenario with public lengths or clients, where it has made-up ones for them.

    Raises BadInputError where the folder lacks the file or the file cannot be read.
    """
    if not scenario.synthetic:
        return scenario
    if scenario.name.startswith("N4"):
        shapes = tuple(Shape(pairs=_lengths(data / name)) for name in AZURE)
        tenants: tuple[Tenant, ...] = (replace(scenario.tenants[0], shapes=shapes),)
    else:
        tenants = _clients(data / SERVEGEN)
    return replace(scenario, tenants=tenants, synthetic="")


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in columns if name not in (reader.fieldnames or ())]
            if lacking:
                raise BadInputError(f"--data: {path} has no column {', '.join(lacking)}")
            return list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"--data: cannot read {path}: {error}") from error


def _lengths(path: Path) -> tuple[tuple[int, int], ...]:
    names = ("ContextTokens", "GeneratedTokens")
    rows = _rows(path, names)
    try:
        pairs = [tuple(int(row[name]) for name in names) for row in rows]
    except ValueError as error:
        raise BadInputError(f"--data: {path}: {error}") from error
    return tuple((max(prompt, 1), max(output, 1)) for prompt, output in pairs)


def _clients(path: Path) -> tuple[Tenant, ...]:
    """Return the busiest clients in the window with the most requests, with equal weights.

    Rows with an empty field are of clients whose lengths were not published.
    """
    names = ("model", "client", "window_start_s", "rate_rps", "cv", "mean_in", "mean_out")
    windows: defaultdict[str, list[Tenant]] = defaultdict(list)
    rows = _rows(path, names)
    try:
        for row in rows:
            if row["model"] == MODEL and all(row[name] for name in names):
                windows[row["window_start_s"]].append(_client(row))
    except ValueError as error:
        raise BadInputError(f"--data: {path}: {error}") from error
    if not windows:
        raise BadInputError(f"--data: {path} has no clients of {MODEL}")
    busiest = max(windows.values(), key=lambda each: sum(tenant.rate for tenant in each))
    return tuple(sorted(busiest, key=lambda tenant: (-tenant.rate, tenant.name))[:CLIENTS])


def _client(row: dict[str, str]) -> Tenant:
    return Tenant(
        f"c{row['client']}",
        (shape(float(row["mean_in"]), float(row["mean_out"])),),
        rate=float(row["rate_rps"]),
        cv=min(float(row["cv"]), BURSTIEST),
    )
