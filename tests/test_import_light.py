"""The core is light: other people's training loops import it without the service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ledgers import open_ledger
from tune_vfl.outcome import Outcome, Score

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


@pytest.mark.parametrize("verb", ["status", "frontier"])
def test_a_study_is_read_without_what_runs_one(home: Path, verb: str) -> None:
    ledger = open_ledger(budget={"trials": 2, "seeds": 2})
    ledger.tell(ledger.begin({"scale": 0.01}), Outcome(outcome="ok", utility=Score.of("auc", [0.8, 0.9]), leakage=0.5))
    ledger.close()
    code = (
        "import sys; from tune_vfl.cli.main import main; code = main([*sys.argv[1:], '--json']); "
        f"print(code, [m for m in ('torch', *{HEAVY!r}) if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, verb, "study"], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"
    assert json.loads(done.stdout)
