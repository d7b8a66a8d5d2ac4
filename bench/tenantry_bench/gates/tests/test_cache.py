"""Kept results: found again, and not taken for others."""

from dataclasses import replace
from pathlib import Path

from tenantry_bench.gates import cache
from tenantry_bench.gates.cache import Cache
from tenantry_bench.gates.jobs import Alike, Job, Overhead, Simulation

JOB = Simulation("N1", "tenantry", 11, keep=("quiet",))


def test_a_result_is_found_again_by_another_process(tmp_path: Path) -> None:
    Cache(tmp_path).put(JOB, {"end": 240.0})
    assert Cache(tmp_path).get(JOB) == {"end": 240.0}


def test_every_field_of_a_job_makes_it_another(tmp_path: Path) -> None:
    kept = Cache(tmp_path)
    others: list[Job] = [
        replace(JOB, scenario="N1p"),
        replace(JOB, arm="stock"),
        replace(JOB, seed=12),
        replace(JOB, tokens=8192),
        replace(JOB, lengths="oracle"),
        replace(JOB, model="bias:1.2"),
        replace(JOB, profile="h100-llama3-8b"),
        replace(JOB, keep=()),
        replace(JOB, only="quiet"),
        replace(JOB, duration=60.0),
        replace(JOB, data=str(tmp_path)),
        replace(JOB, aging=40.0),
        replace(JOB, growth=False),
        Alike("N1", "tenantry", 11, 60.0),
        Overhead("N1"),
    ]
    assert len({kept.path(each) for each in (JOB, *others)}) == len(others) + 1


def test_other_data_is_another_job_and_the_same_data_elsewhere_is_not(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, text in zip(folders, ("x", "x", "y"), strict=True):
        (folder / "azure").mkdir(parents=True)
        (folder / "azure" / "lengths.csv").write_text(text)
    paths = [Cache(tmp_path).path(replace(JOB, data=str(folder))) for folder in folders]
    assert paths[0] == paths[1] != paths[2]


def test_a_file_that_was_cut_off_is_not_a_result(tmp_path: Path) -> None:
    kept = Cache(tmp_path)
    kept.put(JOB, {"end": 240.0})
    kept.path(JOB).write_text('{"end": 24')
    assert kept.get(JOB) is None


def test_fresh_forgets(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    Cache(folder).put(JOB, {})
    assert Cache(folder, fresh=True).get(JOB) is None


def test_the_key_covers_the_scheduler_and_the_simulator_and_no_tests() -> None:
    names = [f"{path.parent.name}/{path.name}" for path in cache.sources()]
    assert {"tenantry_engine/conductor.py", "tenantry_core/ledger.py", "simulator/drive.py"} <= set(
        names
    )
    assert "profiles/a100-llama3-8b.yaml" in names
    plain = [path.name for path in cache.sources(plain=True)]
    assert {"offline.py", "drive.py"} <= set(plain)
    assert not {"conductor.py", "ledger.py"} & set(plain)
    assert not [name for name in names if "tests/" in name]
