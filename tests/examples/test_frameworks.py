"""examples/nvflare and examples/flower: in each framework's simulator, every defense gives the search's numbers.

Each framework has a virtual environment of its own beside what a loop needs of tune-vfl; a job takes about a minute.
With -rP each defense's numbers are printed, of the same seeds: in one process | in the framework.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from tests.examples.test_own_loops import fitting, spec, written_table
from tests.examples.test_sites import TOGETHER, evaluated, params_of, three_sites, trained
from tests.helpers.examples import EXAMPLES
from tests.helpers.source import copied_to
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.evaluation import RecordedTraining, attack_recording
from tune_vfl.outcome import Outcome

pytestmark = pytest.mark.slow  # installs a framework into a venv
FRAMEWORKS = {"nvflare": "nvflare==2.9.0", "flower": "flwr[simulation]==1.42.0"}


def cases() -> list[Any]:
    """Every defense that runs at the label site alone, in the first mode that it is defined for."""
    first = {loop_and_name.values[1]: loop_and_name.values for loop_and_name in reversed(fitting())}
    names = [name for name in first if DEFENSES[name].capabilities.run_by == "active" and name not in TOGETHER]
    return [pytest.param(*first[name], id=name) for name in sorted(names)]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A framework's name and the virtual environment that it is installed into, with what a loop needs of tune-vfl."""
    place = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    wanted = [FRAMEWORKS[request.param], str(copied_to(place / "source")), "torch==2.13.0"]
    command = [str(place / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", *wanted]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution found" in ended.stderr:
        pytest.skip(f"the package index lacks {FRAMEWORKS[request.param]}")
    assert ended.returncode == 0, ended.stderr
    yield request.param, place / "venv" / "bin"
    for process in psutil.process_iter(["cmdline"]):  # flwr run leaves a SuperLink behind, which serves later runs
        if any(str(place) in word for word in process.info["cmdline"] or ()):
            process.terminate()


def run(
    framework: tuple[str, Path], config: Path, *, sites: int = 1, wire: str = "float32", record: bool = False
) -> dict[str, list[float]]:
    """Run a framework's example and return utility and leakage, each as found there and in the search."""
    name, programs = framework
    if name == "nvflare":
        command = ["python", str(EXAMPLES / "nvflare" / "job.py"), str(config), "--sites", str(sites), "--wire", wire]
        ended = command_in(programs, [*command, *(["--record", "."] if record else [])], config.parent)
    else:
        given = f"config='{config}' folder='{config.parent / 'sites'}' wire='{wire}'"
        app = recording_copy(config.parent) if record else EXAMPLES / "flower"
        ended = flower(programs, app, f"{given} recorded='{config.parent / 'recorded'}'", config.parent, sites)
    printed = re.findall(r"(utility|leakage) ([\d.]+); in the search ([\d.]+)", ended.stdout)
    assert len(printed) == 2, ended.stdout[-3000:] + ended.stderr[-3000:]
    return {what: [float(here), float(searched)] for what, here, searched in printed}


def flower(programs: Path, app: Path, given: str, folder: Path, sites: int = 1) -> subprocess.CompletedProcess[str]:
    simulated = ["--stream", "--federation-config", f"num-supernodes={sites}", "--run-config", given]
    return command_in(programs, ["flwr", "run", str(app), *simulated], folder)


def command_in(programs: Path, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of a framework's virtual environment in a folder."""
    places = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{EXAMPLES}:{EXAMPLES / 'flower'}",
        "FLWR_HOME": str(programs.parents[1] / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    started = [str(programs / command[0]), *command[1:]]
    env = {**os.environ, **places}
    return subprocess.run(started, cwd=folder, env=env, capture_output=True, text=True, check=False)


def same(found: dict[str, list[float]], outcome: Outcome, tolerance: float = 1e-3) -> bool:
    here = [found[name][0] for name in ("utility", "leakage")]
    return here == pytest.approx(outcome.objectives, abs=tolerance)


@pytest.mark.parametrize(("loop", "defense"), cases())
def test_every_defense_of_the_label_site_gives_the_search_s_numbers(
    framework: tuple[str, Path], loop: str, defense: str, tmp_path: Path
) -> None:
    csv = written_table(tmp_path)
    outcome, config = evaluated(tmp_path, spec(csv, loop, defense), params_of(loop, defense))
    plain, found = trained(config, csv, tmp_path).objectives, run(framework, tmp_path / "best.json")
    of = dict(zip(found, plain, strict=True))
    shown = "; ".join(f"{name} {of[name]:.4f} | {here:.4f}" for name, (here, _) in found.items())
    print(f"{framework[0]}, {loop}, {defense}: {shown}")
    assert same(found, outcome)


def test_so_do_three_sites(framework: tuple[str, Path], tmp_path: Path) -> None:
    outcome, _ = three_sites(written_table(tmp_path), tmp_path)
    assert same(run(framework, tmp_path / "best.json", sites=2), outcome)


LOST = """
from types import SimpleNamespace
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from passive_app import answer
call = RecordDict({"call": ConfigRecord({"method": "embed", "numbers": []}), "tensors": ArrayRecord()})
answer(SimpleNamespace(content=call), Context(1, 1, {}, RecordDict(), {}))
"""


def test_a_site_that_lost_its_context_in_a_training_says_so(framework: tuple[str, Path], tmp_path: Path) -> None:
    name, programs = framework
    if name == "nvflare":
        pytest.skip("NVFlare ends a job in which a site fails")
    ended = command_in(programs, ["python", "-c", LOST], tmp_path)
    assert "RuntimeError: this site was started anew in the midst of a training" in ended.stderr


SENT = """
import sys
sys.path.insert(0, sys.argv[1])
from job import recipe
from sites import Site
recipe(Site(), "best.json", None, ["sites/site-1"], "float32").export(sys.argv[2])
"""


def test_nvflare_s_job_takes_no_part_of_tune_vfl_along(framework: tuple[str, Path], tmp_path: Path) -> None:
    name, programs = framework
    if name == "flower":
        pytest.skip("Flower sends the folder of the app")
    command = ["python", "-c", SENT, str(EXAMPLES / "nvflare"), str(tmp_path)]
    ended = command_in(programs, command, tmp_path)
    assert ended.returncode == 0, ended.stderr
    sent = {path.name for path in tmp_path.rglob("*") if path.parent.name == "custom"}
    assert {"passive_site.py", "label_site.py", "sites.py"} <= sent
    assert "tune_vfl" not in sent, "of a clone, parts of it stood before the installed one"


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


def recording_copy(folder: Path) -> Path:
    """Copy Flower's example and put the recorder into it, as a person does."""
    app = shutil.copytree(EXAMPLES / "flower", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    text = (app / "passive_app.py").read_text(encoding="utf-8")
    assert "app = ClientApp()" in text
    text = text.replace("app = ClientApp()", "app = ClientApp(mods=[recording(defended)])")
    recorded = text.replace("import torch\n", "import torch\nfrom recording_mod import defended, recording\n", 1)
    (app / "passive_app.py").write_text(recorded, encoding="utf-8")
    return app


def joined(programs: Path, recorded: Path) -> RecordedTraining:
    """Join the steps that a node recorded."""
    command = ["python", str(EXAMPLES / "flower" / "recording_mod.py"), str(recorded), "recording.npz"]
    ended = command_in(programs, command, recorded.parent)
    assert ended.returncode == 0, ended.stderr
    return RecordedTraining.read(recorded.parent / "recording.npz")


def test_what_a_site_records_is_attacked_with_the_search_s_success(framework: tuple[str, Path], tmp_path: Path) -> None:
    csv = written_table(tmp_path)
    outcome, config = evaluated(tmp_path, spec(csv, "own_loop_split", "laplace"), {"scale": 0.002})
    run(framework, tmp_path / "best.json", record=True)
    if framework[0] == "nvflare":
        held = RecordedTraining.read(tmp_path / "sites" / "site-1" / "recording.npz")
    else:
        held = joined(framework[1], tmp_path / "recorded" / "0")
    defense = config.build_defense(embedding_dims=[config.embedding_dim])
    y = config.own_loop(defense, seed=config.seeds[0], path=str(csv)).split.y_train
    found = {one.attack: one.success for one in attack_recording(held, y.numpy(), draws=2)}
    assert held.epochs == config.training.epochs
    assert found["norm"] == pytest.approx(outcome.attacks["norm"].mean, abs=0.06)
    assert found["norm"] > 0.6, "what finds nothing agrees with all that finds nothing"


def test_an_existing_vertical_training_is_recorded_and_attacked(framework: tuple[str, Path], tmp_path: Path) -> None:
    name, programs = framework
    if name == "nvflare":
        pytest.skip("examples/flower_vertical is Flower's")
    loans, app = EXAMPLES / "loans", EXAMPLES / "flower_vertical"
    given = f"folder='{loans}' rounds=3 recorded='{tmp_path / 'recorded'}'"
    ended = flower(programs, app, given, tmp_path, sites=3)
    assert "Run finished 3 round(s)" in ended.stdout, ended.stdout[-3000:] + ended.stderr[-3000:]
    tables = [pd.read_csv(loans / f"{table}.csv") for table in ("shop", "bank")]
    y = tables[0].merge(tables[1], on="loan_id").sort_values("loan_id")["default"].to_numpy()
    for party in range(3):
        held = joined(programs, tmp_path / "recorded" / str(party))
        assert (held.epochs, held.rows, held.gradients.shape[1]) == (3, len(y), 12), "the gradients of all three"
        signs = (held.gradients[: len(y)] > 0).numpy()
        told = (signs == (y == 1)[:, None]).all(0) | (signs == (y == 0)[:, None]).all(0)
        assert told.all(), "in each column a row's sign is its label"
        found = {one.attack: one for one in attack_recording(held, y, draws=1)}
        assert found["grad_cluster"].success == 1.0
