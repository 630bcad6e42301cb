"""A method of one's own: the example of CONTRIBUTING.md, installed as a plug-in, works like a built-in one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"

USE = """
from tune_vfl import evaluate
from tune_vfl.defenses.base import DEFENSES
assert "shrink" in DEFENSES.names()
# Adam would not notice a smaller gradient.
SGD = ["training.epochs=3", "training.optimizer=sgd", "training.lr=0.1"]
plain, shrunk = (
    evaluate("breast_cancer", defense=name, attacks=["norm"], seeds=1, settings=SGD)
    for name in ("none", "shrink")
)
assert shrunk["outcome"] == "ok", shrunk
assert shrunk["defense"] == {"name": "shrink", "params": {"factor": 0.5}}
assert shrunk["utility"] != plain["utility"]
"""

WITHOUT_A_FILE_OF_SPACES = """
from tune_vfl.driver.planning import planned_campaign
from tune_vfl.errors import SpecError
def plan(**defense):
    raw = {"study": "s", "dataset": "breast_cancer", "attacks": ["norm"]}
    return planned_campaign({**raw, "defense": {"name": "shrink", **defense}}).studies[0]
one = plan(params={"factor": 0.25})
assert one.space.points() == [{}] and one.cell.fixed == {"factor": 0.25}
try:
    plan()
except SpecError as error:
    assert "space: {factor: {float: [LOW, HIGH]}}" in str(error) and "params in place of space" in str(error), error
else:
    raise AssertionError("a search without a range was planned")
try:
    plan(params={"facto": 0.25})
except SpecError as error:
    assert "facto" in str(error) and "has no file" not in str(error), error
else:
    raise AssertionError("a parameter that there is not was planned")
"""

SPACE = """
import sys
import yaml
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.spaces.space import parse_space
space = parse_space(yaml.safe_load(sys.stdin)["default"], "shrink")
assert space.published
for point in [*space.grid(4), *(setting.params for setting in space.published)]:
    assert space.holds(point)
    DEFENSES["shrink"].Params.model_validate(point)
"""


def block(language: str, word: str) -> str:
    """Return the first block of code in CONTRIBUTING.md in which a word stands."""
    blocks = re.findall(rf"```{language}\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)
    return next(b for b in blocks if word in b)


def install(folder: Path) -> None:
    """Put the example module, its test and its entry point where Python finds them."""
    (folder / "my_defense.py").write_text(block("python", '@defense("shrink")'))
    (folder / "test_shrink.py").write_text(block("python", "DefenseContract"))
    info = folder / "my_defense-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-defense\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tune_vfl.defenses]\nshrink = my_defense\n")


ATTACKED = """
from tune_vfl import evaluate
found = evaluate("breast_cancer", attacks=["default", "peak"], seeds=1, settings=["training.epochs=3"])
assert {"norm", "peak"} <= set(found["attacks"]), found
"""


def install_attack(folder: Path) -> None:
    """Put the example of docs/new-attack.md, its test and its entry point where Python finds them."""
    page = (CONTRIBUTING.parent / "docs" / "new-attack.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"Save as `([\w.]+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL))
    for name in ("peak.py", "test_peak.py"):
        (folder / name).write_text(files[name])
    info = folder / "peak-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: peak\nVersion: 0.1\n")
    assert '[project.entry-points."tune_vfl.attacks"]\npeak = "peak"\n' in files["pyproject.toml"]
    (info / "entry_points.txt").write_text("[tune_vfl.attacks]\npeak = peak\n")


def python(folder: Path, *arguments: str, given: str = "") -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_of_contributing_is_a_working_plug_in(tmp_path: Path) -> None:
    install(tmp_path)
    python(tmp_path, "-c", USE)


def test_a_plug_in_that_ends_the_process_is_no_success(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "my_defense.py").write_text("import sys\nsys.exit(0)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))}
    command = [sys.executable, "-m", "tune_vfl", "list", "defenses"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "plug-in 'shrink = my_defense' (entry point tune_vfl.defenses) of package my-defense 1.0" in done.stderr


def test_the_example_passes_the_lint_of_the_library() -> None:
    pytest.importorskip("ruff", reason="in the extra dev")
    root = CONTRIBUTING.parent
    for words in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "tune_vfl/defenses/shrink.py", "-"]
        example = block("python", '@defense("shrink")')
        done = subprocess.run(command, cwd=root, input=example, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_fixed_parameters_need_no_space_and_a_search_says_what_it_needs(tmp_path: Path) -> None:
    install(tmp_path)
    python(tmp_path, "-c", WITHOUT_A_FILE_OF_SPACES)


def test_the_example_keeps_the_contract_of_defenses(tmp_path: Path) -> None:
    install(tmp_path)
    python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shrink.py")


def test_the_space_of_the_example_holds_with_its_parameters(tmp_path: Path) -> None:
    install(tmp_path)
    python(tmp_path, "-c", SPACE, given=block("yaml", "factor"))


def test_the_attack_of_the_page_is_a_working_plug_in(tmp_path: Path) -> None:
    install_attack(tmp_path)
    python(tmp_path, "-c", ATTACKED)
    python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "test_peak.py")
