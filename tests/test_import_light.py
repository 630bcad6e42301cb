"""The core is light: other people's training loops import it without the service."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("ray", "mlflow", "optuna", "transformers", "matplotlib", "plotly", "pandas", "sklearn")


@pytest.mark.parametrize(
    "statement",
    [
        "import tune_vfl",
        "import tune_vfl.config",
        "from tune_vfl.defenses.base import DEFENSES; DEFENSES.names()",
        "from tune_vfl.attacks.base import ATTACKS; ATTACKS.names()",
        "from tune_vfl import evaluate, load_config",
    ],
)
def test_heavy_libraries_are_not_imported(statement: str) -> None:
    code = f"import sys; {statement}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "statement",
    [
        "import tune_vfl",
        "from tune_vfl.defenses.base import DEFENSES; DEFENSES.names()",
        "from tune_vfl.statistics import advantage, stratified_folds",
    ],
)
def test_scipy_waits_for_what_needs_it(statement: str) -> None:
    code = f"import sys; {statement}; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
