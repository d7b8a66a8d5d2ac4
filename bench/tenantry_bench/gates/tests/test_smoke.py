"""The small table on the real scheduler."""

from pathlib import Path

import pytest

from tenantry_bench.gates import main


@pytest.mark.engine
def test_the_small_table_is_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main.main(["--smoke", "--build", str(tmp_path)])
    shown = capsys.readouterr()
    assert status == 0, shown.out + shown.err
    assert (tmp_path / "gates.json").is_file()
