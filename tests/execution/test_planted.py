"""A working folder that other accounts write: what they plant there is run by no verb and no worker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.planted import SPEC, plant

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of mode 1777 with what others have planted."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    plant(place, tmp_path / "marks")
    (tmp_path / "s.yaml").write_text(SPEC)
    return place


@pytest.mark.parametrize("verb", [("search", "../s.yaml"), ("doctor",)])
def test_nothing_planted_is_imported(folder: Path, verb: tuple[str, ...]) -> None:
    environment = {**os.environ, "TUNE_VFL_HOME": str(folder.parent / "home"), "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f":.:{environment['PATH']}"
    environment.pop("RAY_ADDRESS", None)
    # As an installed `tune-vfl` runs: the folder of the program is on the path, not the working folder.
    program = (
        "import sys; sys.path[:] = [p for p in sys.path if p]; from tune_vfl.cli.main import main; sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program, *verb],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    marks = folder.parent / "marks"
    assert not marks.exists(), marks.read_text()
    assert ran.returncode in ({0} if verb[0] == "search" else {0, 1}), ran.stderr
