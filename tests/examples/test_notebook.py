"""The notebook of examples/, cell by cell as Jupyter would run it, in a home of its own with a small budget."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.run import displayed
from tests.helpers.examples import EXAMPLES
from tests.helpers.simulated import SimulatedTrainable
from tune_vfl import load_config
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.service import projecting

CELL_KEYS = {"markdown": {"cell_type", "id", "metadata", "source"}}
CELL_KEYS["code"] = CELL_KEYS["markdown"] | {"execution_count", "outputs"}


@cache
def notebook() -> dict[str, Any]:
    book: dict[str, Any] = json.loads((EXAMPLES / "choose_a_defense.ipynb").read_text(encoding="utf-8"))
    return book


def code() -> list[str]:
    return ["".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "code"]


def test_it_is_a_notebook_without_outputs() -> None:
    """The fields that nbformat 4.5 asks for; it is not installed here."""
    book = notebook()
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert set(cell) == CELL_KEYS[cell["cell_type"]]
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


# What the search of the notebook finds, in closed form: gradient compression is behind Laplace noise everywhere,
# and both cost more utility than the notebook asks for.
SIMULATED = TrainableSpec(
    SimulatedTrainable,
    {
        "noise": 0.002,
        "by_defense": {
            "laplace": {"waste": 0.1},
            "gradient_compression": {"parameter": "keep", "low": 0.05, "high": 1.0, "waste": 0.2},
        },
    },
)


@pytest.mark.parametrize(
    "simulated",
    # A minute of a core: three seeds of eleven settings, and all attacks that fit.
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["simulated", "trained"],
)
def test_its_cells_run_in_order_and_show_something(
    simulated: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if simulated:
        monkeypatch.setattr(TrainableSpec, "real", lambda: SIMULATED)
    confirmed: list[str] = []
    # Confirmations and MLflow have tests of their own, and would take most of this one's time.
    monkeypatch.setattr(projecting, "confirm_named", lambda name, **_: confirmed.append(name))
    monkeypatch.setitem(sys.modules, "tune_vfl.tracking.mlflow", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIALS", "8")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [value for cell in code() if (value := displayed(cell, names)) is not None]
    kinds = ["Study", "DataFrame", "Figure", "DataFrame", "Recommendation", "DataFrame"]
    assert [type(value).__name__ for value in shown] == kinds
    study, front, _, _, decision, _ = shown
    assert confirmed == ["choose-a-defense"]
    assert set(study.trials()["defense"]) == {"laplace", "gradient_compression"}
    assert (decision.setting is None) == simulated, "what the text around it promises; nothing simulated is as good"
    chosen = decision.setting or decision.nearest
    assert chosen.defense == "laplace"
    assert chosen.number in front["number"].tolist()
    assert ("<p><b>Deploy laplace" in decision._repr_html_()) != simulated
    config = load_config(tmp_path / "best.json")
    assert config.defense.params == {"clip": None, **chosen.params}
    assert capsys.readouterr().out == f"laplace {config.defense.params}\n"
