"""The digests of the source files that measure: what changes numbers changes them, what is said about it does not."""

import ast
import importlib
import py_compile
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.cells import cells
from trainables.cell import CellTrainable
from tune_vfl.errors import StudyError
from tune_vfl.evaluation import code
from tune_vfl.records.measure import other_code, refuse_other_code

cell_of = cells()

BEFORE = '''
"""Noise."""
import math

class Noise:
    """Adds noise."""

    def add(self, x: float) -> float:
        """Return it."""
        return x + 1
'''


def digest(text: str) -> list[str]:
    return list(code._shape(ast.parse(text)))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Adds noise."""', '"""Adds much noise."""', True),
        ('        """Return it."""\n', "        # returns it\n", True),
        ("import math\n", "\n\nimport math\n", True),
        ("x + 1", "x", False),
        ("x + 1", "x + 1.0", False),
        ("x: float", "y: float", False),
        ("import math", "import cmath", False),
    ],
)
def test_a_change_counts_where_it_can_change_a_number(old: str, new: str, same: bool) -> None:
    assert old in BEFORE
    assert (digest(BEFORE.replace(old, new)) == digest(BEFORE)) is same


def test_the_files_are_those_of_the_study_s_own_names_and_what_they_import() -> None:
    laplace, marvell = (code.code_of(cell_of("norm", defense=name), CellTrainable) for name in ("laplace", "marvell"))
    assert {name for name in {*laplace} ^ {*marvell} if name.startswith("tune_vfl.defenses")} >= {
        "tune_vfl.defenses.laplace",
        "tune_vfl.defenses.marvell",
    }
    for name in ("trainables.cell", "tune_vfl.attacks.norm", "tune_vfl.evaluation.packs", "tune_vfl.protocol.loop"):
        assert laplace[name] == marvell[name]
    assert "tune_vfl.attacks.exploit" not in laplace
    assert not [name for name in laplace if name.startswith(("tune_vfl.cli", "tune_vfl.spec", "tune_vfl.service"))]


def test_a_plug_in_s_own_files_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_methods").mkdir()
    (tmp_path / "their_methods" / "__init__.py").write_text("")
    (tmp_path / "their_methods" / "parts.py").write_text("from . import deep\n\nHALF = deep.HALF\n")
    (tmp_path / "their_methods" / "deep.py").write_text("HALF = 0.5\n")
    (tmp_path / "their_methods" / "run.py").write_text(
        "from .parts import HALF\nfrom trainables.cell import CellTrainable\n\n\n"
        "class Theirs(CellTrainable):\n    half = HALF\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    theirs = importlib.import_module("their_methods.run").Theirs
    found = code.code_of(cell_of("norm"), theirs)
    assert {
        "their_methods.run",
        "their_methods.parts",
        "their_methods.deep",
        "trainables.cell",
        "tune_vfl.attacks.norm",
    } <= {*found}
    for name in ("their_methods", "their_methods.run", "their_methods.parts", "their_methods.deep"):
        monkeypatch.delitem(sys.modules, name)


def test_what_differs_is_named() -> None:
    before, now = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"}
    assert other_code([{"b": "0"}, before], now) == ["b (changed)", "c (gone)", "d (new)"]
    assert other_code([before], before) == other_code(None, now) == []
    with pytest.raises(StudyError, match=r"'s' was measured by other code: b \(changed\)\. .*--name NEW.*--other-code"):
        refuse_other_code("s", ["b (changed)"])
    refuse_other_code("s", [])


def test_a_class_without_a_source_file_counts_by_its_bytes_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source.py").write_text(
        "from trainables.cell import CellTrainable\n\n\nclass Theirs(CellTrainable): ...\n"
    )
    py_compile.compile(str(tmp_path / "source.py"), cfile=str(tmp_path / "compiled_methods.pyc"))
    monkeypatch.syspath_prepend(tmp_path)
    theirs = importlib.import_module("compiled_methods").Theirs
    assert "compiled_methods" in code.code_of(cell_of("norm"), theirs)
    monkeypatch.delitem(sys.modules, "compiled_methods")
    of_a_notebook = type("Theirs", (CellTrainable,), {"__module__": "a_notebook"})
    monkeypatch.setitem(sys.modules, "a_notebook", ModuleType("a_notebook"))
    assert "tune_vfl.attacks.norm" in code.code_of(cell_of("norm"), of_a_notebook)
