"""examples/nvflare and examples/flower: in each framework's simulator, every defense gives the search's numbers.

Each framework has a virtual environment of its own beside what a loop needs of tune-vfl; a job takes about a minute.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_own_loops import fitting, spec, written_table
from tests.examples.test_sites import TOGETHER, evaluated, params_of, three_sites
from tests.helpers.examples import EXAMPLES
from tests.helpers.source import copied_to
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.outcome import Outcome

pytestmark = pytest.mark.slow  # installs a framework into a venv
FRAMEWORKS = {"nvflare": "nvflare==2.9.0", "flower": "flwr[simulation]==1.42.0"}


def cases() -> list[Any]:
    """Every defense that runs at the label site alone, in the first mode that it is defined for."""
    first = {loop_and_name.values[1]: loop_and_name.values for loop_and_name in reversed(fitting())}
    names = [name for name in first if DEFENSES[name].capabilities.run_by == "active" and name not in TOGETHER]
    return [pytest.param(*first[name], id=name) for name in sorted(names)]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A framework's name and the virtual environment that it is installed into, with what a loop needs of tune-vfl."""
    place = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    wanted = [FRAMEWORKS[request.param], str(copied_to(place / "source")), "torch==2.13.0"]
    command = [str(place / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", *wanted]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found" in ended.stderr:
        pytest.skip(f"the package index lacks {FRAMEWORKS[request.param]}")
    assert ended.returncode == 0, ended.stderr
    return request.param, place / "venv" / "bin"


def run(framework: tuple[str, Path], config: Path, *, sites: int = 1, wire: str = "float32") -> dict[str, list[float]]:
    """Run a framework's example and return utility and leakage, each as found there and in the search."""
    name, programs = framework
    if name == "nvflare":
        command = ["python", str(EXAMPLES / "nvflare" / "job.py"), str(config), "--sites", str(sites), "--wire", wire]
    else:
        given = f"config='{config}' folder='{config.parent / 'sites'}' wire='{wire}'"
        simulated = ["--stream", "--federation-config", f"num-supernodes={sites}", "--run-config", given]
        command = ["flwr", "run", str(EXAMPLES / "flower"), *simulated]
    places = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(EXAMPLES),
        "FLWR_HOME": str(config.parent / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    ended = subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=config.parent,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = re.findall(r"(utility|leakage) ([\d.]+); in the search ([\d.]+)", ended.stdout)
    assert len(printed) == 2, ended.stdout[-3000:] + ended.stderr[-3000:]
    return {what: [float(here), float(searched)] for what, here, searched in printed}


def same(found: dict[str, list[float]], outcome: Outcome, tolerance: float = 1e-3) -> bool:
    here = [found[name][0] for name in ("utility", "leakage")]
    return here == pytest.approx(outcome.objectives, abs=tolerance)


@pytest.mark.parametrize(("loop", "defense"), cases())
def test_every_defense_of_the_label_site_gives_the_search_s_numbers(
    framework: tuple[str, Path], loop: str, defense: str, tmp_path: Path
) -> None:
    csv = written_table(tmp_path)
    outcome, _ = evaluated(tmp_path, spec(csv, loop, defense), params_of(loop, defense))
    assert same(run(framework, tmp_path / "best.json"), outcome)


def test_so_do_three_sites(framework: tuple[str, Path], tmp_path: Path) -> None:
    outcome, _ = three_sites(written_table(tmp_path), tmp_path)
    assert same(run(framework, tmp_path / "best.json", sites=2), outcome)


def test_half_precision_on_the_wire(framework: tuple[str, Path], tmp_path: Path) -> None:
    outcome, _ = evaluated(tmp_path, spec(written_table(tmp_path), "own_loop_split", "laplace"), {"scale": 0.001})
    assert same(run(framework, tmp_path / "best.json", wire="float16"), outcome, tolerance=0.02)


def test_the_passive_site_runs_its_part_in_nvflare_and_is_refused_in_flower(
    framework: tuple[str, Path], tmp_path: Path
) -> None:
    outcome, _ = evaluated(tmp_path, spec(written_table(tmp_path), "own_loop_split", "fedpass"), {})
    if framework[0] == "nvflare":
        assert same(run(framework, tmp_path / "best.json"), outcome)
    else:
        with pytest.raises(AssertionError, match="fedpass runs at passive sites too"):
            run(framework, tmp_path / "best.json")
