"""The core is light: other people's training loops import it without the service."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ledgers import open_ledger
from tests.helpers.ports import free_port
from tune_vfl.outcome import Outcome, Score

COMPILER = ("torch._dynamo", "sympy")
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
    "from tune_vfl.attacks.base import ATTACKS; ATTACKS.names()",
    "from tune_vfl.statistics import advantage, stratified_folds",
    "from trainables.cell import CellTrainable; import tune_vfl.evaluation.packs",
)
STEP = (
    "import torch; from tune_vfl.models.optimizers import Adam; x = torch.ones(1, requires_grad=True); "
    "a = Adam([x], fused=True); x.sum().backward(); a.step(); a.zero_grad()"
)
EVALUATE = (
    "from tune_vfl import evaluate; "
    "evaluate('breast_cancer', attacks=['norm'], seeds=1, settings=['training.epochs=1'])"
)
DEFENDED = (
    "from tune_vfl import evaluate; "
    "evaluate('breast_cancer', defense='laplace', seeds=1, settings=['training.epochs=1'])"
)
WITHOUT_COMPILER = (STEP, EVALUATE, DEFENDED)
CHECK = (
    "import contextlib, io; from tune_vfl.cli.main import main; out = contextlib.redirect_stdout(io.StringIO()); "
    "out.__enter__(); assert main(['data', 'check', '-d', 'wine']) == 0; out.__exit__(None, None, None)"
)
WITHOUT_SERVICE = {
    CHECK: ("ray", "mlflow", "optuna", "transformers", "matplotlib"),
    "import tune_vfl.tracking.mlflow, reports.story": ("ray", "mlflow"),
}

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
    statements = list(dict.fromkeys([*LIGHT, *WITHOUT_SCIPY, *WITHOUT_COMPILER, *WITHOUT_SERVICE]))
    asked = json.dumps([statements, [*HEAVY, "scipy", *COMPILER]])
    done = subprocess.run([sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("statement", LIGHT)
def test_heavy_libraries_are_not_imported(statement: str, imported: dict[str, list[str]]) -> None:
    assert not set(imported[statement]) & set(HEAVY)


@pytest.mark.parametrize("statement", WITHOUT_SCIPY)
def test_scipy_waits_for_what_needs_it(statement: str, imported: dict[str, list[str]]) -> None:
    assert "scipy" not in imported[statement]


@pytest.mark.parametrize("statement", WITHOUT_COMPILER, ids=["optimizer", "evaluate", "defended"])
def test_no_process_waits_for_torchs_compiler(statement: str, imported: dict[str, list[str]]) -> None:
    assert not set(imported[statement]) & set(COMPILER)


@pytest.mark.parametrize(("statement", "libraries"), WITHOUT_SERVICE.items(), ids=["data check", "tracking"])
def test_what_looks_at_data_or_records_loads_no_service(
    statement: str, libraries: tuple[str, ...], imported: dict[str, list[str]]
) -> None:
    assert not set(imported[statement]) & set(libraries)


# What each verb that only reads may import of what takes long: nothing that trains or searches. Ledgers are read with
# SQLAlchemy, and tables for files are pandas' work.
READS = {
    "status study --json": ("sqlalchemy",),
    "frontier study --json": ("sqlalchemy",),
    "studies --json": ("sqlalchemy",),
    "frontier study --format csv": ("pandas", "sqlalchemy"),
    "study pack study -o study.study": ("sqlalchemy",),
    "jobs list": (),
    "ui --help": (),
    "--help": (),
}
SLOW = (*HEAVY, "torch", "sqlalchemy", "tune_vfl.driver", "tune_vfl.execution", "trainables")

VERBS = """
import json, os, shlex, sys
verbs, libraries = json.loads(sys.argv[1])
for verb in verbs:
    if (child := os.fork()) == 0:
        answers = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        from tune_vfl.cli.main import main
        code = main(shlex.split(verb))
        sys.stdout.flush()
        found = [m for m in libraries if m in sys.modules]
        os.write(answers, (json.dumps([verb, [code, found]]) + "\\n").encode())
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_each_verb_that_reads_imports_what_it_needs_and_nothing_else(home: Path, tmp_path: Path) -> None:
    ledger = open_ledger(budget={"trials": 2, "seeds": 2})
    ledger.tell(ledger.begin({"scale": 0.01}), Outcome(outcome="ok", utility=Score.of("auc", [0.8, 0.9]), leakage=0.5))
    ledger.close()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    # The default port may be another Ray's of this machine.
    environment["RAY_API_SERVER_ADDRESS"] = f"http://127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, "-c", VERBS, json.dumps([list(READS), SLOW])],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert list(found) == list(READS)
    assert {verb: code for verb, (code, _) in found.items()} == {verb: 4 * (verb == "jobs list") for verb in READS}
    assert {verb: sorted(set(libraries) - set(READS[verb])) for verb, (_, libraries) in found.items()} == {
        verb: [] for verb in READS
    }
