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
LIGHT = (
    "import tune_vfl",
    "import tune_vfl.config",
    "from tune_vfl.defenses.base import DEFENSES; DEFENSES.names()",
    "from tune_vfl.attacks.base import ATTACKS; ATTACKS.names()",
    "from tune_vfl import evaluate, load_config",
)
WITHOUT_SCIPY = (
    "import tune_vfl",
    "from tune_vfl.defenses.base import DEFENSES; DEFENSES.names()",
    "from tune_vfl.statistics import advantage, stratified_folds",
)
STEP = (
    "import torch; from tune_vfl.models.optimizers import Adam; x = torch.ones(1, requires_grad=True); "
    "a = Adam([x], fused=True); x.sum().backward(); a.step(); a.zero_grad()"
)
EVALUATE = (
    "from tune_vfl import evaluate; "
    "evaluate('breast_cancer', attacks=['norm'], seeds=1, settings=['training.epochs=1'])"
)
WITHOUT_COMPILER = (STEP, EVALUATE)

# Torch, which all of them need and which brings in none of these, is imported once; each statement then runs in a copy
# of that process, as it would in a fresh one.
PROGRAM = """
import json, os, sys
import torch
assert not any(m.startswith("tune_vfl") for m in sys.modules)
statements, libraries = json.loads(sys.argv[1])
for statement in statements:
    if (child := os.fork()) == 0:
        exec(statement)
        print(json.dumps([statement, [m for m in libraries if m in sys.modules]]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, list[str]]:
    """Return which of the libraries each statement imports."""
    statements = list(dict.fromkeys(LIGHT + WITHOUT_SCIPY + WITHOUT_COMPILER))
    asked = json.dumps([statements, [*HEAVY, "scipy", "torch._dynamo"]])
    done = subprocess.run([sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("statement", LIGHT)
def test_heavy_libraries_are_not_imported(statement: str, imported: dict[str, list[str]]) -> None:
    assert not set(imported[statement]) & set(HEAVY)


@pytest.mark.parametrize("statement", WITHOUT_SCIPY)
def test_scipy_waits_for_what_needs_it(statement: str, imported: dict[str, list[str]]) -> None:
    assert "scipy" not in imported[statement]


@pytest.mark.parametrize("statement", WITHOUT_COMPILER, ids=["optimizer", "evaluate"])
def test_no_process_waits_for_torchs_compiler(statement: str, imported: dict[str, list[str]]) -> None:
    assert "torch._dynamo" not in imported[statement]


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
