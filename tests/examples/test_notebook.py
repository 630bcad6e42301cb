"""The notebook of examples/, cell by cell as Jupyter would run it, in a home of its own with a small budget."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import EXAMPLES
from tune_vfl import load_config

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


def test_its_cells_run_in_order_and_show_something(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIALS", "3")
    monkeypatch.setenv("SEEDS", "2")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [value for cell in code() if (value := displayed(cell, names)) is not None]
    assert [type(value).__name__ for value in shown] == [
        "Study", "DataFrame", "Figure", "DataFrame", "str", "Setting", "DataFrame",
    ]  # fmt: skip
    html = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert all("laplace" in text for text in html)
    assert len(names["study"].trials()) == 3
    assert names["study"].record().confirmation is not None
    assert load_config(tmp_path / "best.json").defense.name == "laplace"
    assert capsys.readouterr().out.startswith("laplace {'scale'")


def displayed(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell; return what its last line comes to, which is what a notebook shows."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the notebook's own cells
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
