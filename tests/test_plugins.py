"""A method of one's own: the example of CONTRIBUTING.md, installed as a plug-in, works like a built-in one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def install(folder: Path) -> None:
    """Put the example module and its entry point where Python finds them."""
    code = next(b for b in re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL) if "shrink" in b)
    (folder / "my_defense.py").write_text(code)
    info = folder / "my_defense-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-defense\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tune_vfl.defenses]\nshrink = my_defense\n")


def test_the_example_of_contributing_is_a_working_plug_in(tmp_path: Path) -> None:
    install(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
