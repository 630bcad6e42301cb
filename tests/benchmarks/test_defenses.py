"""The cost of the defenses: that it can be measured for every registered one; what it comes to is nobody's promise."""

import pytest

from benchmarks.defenses import Problem, main, tasks_of
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.errors import SpecError


def test_a_table_for_a_tiny_problem_names_each_defense(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["laplace", "marvell", "kdk"]
    main(["--dims", "3", "--rows", "300", "--epochs", "1", "--repeats", "1", "--defenses", *names])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| defense, d = 3 |")
    for name, line in zip(names, lines[2:], strict=False):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[0] == name
        assert all(float(cell) >= 0 for cell in cells[1:])


def test_every_registered_defense_is_measured_or_left_out_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    problem = Problem.made_up(4, classes=3, rows=300, epochs=1)
    left_out = {}
    for name in DEFENSES:
        try:
            tasks_of(name, problem)
        except SpecError as error:
            left_out[name] = str(error)
    assert "two classes" in left_out["marvell"]
    main(["--dims", "4", "--rows", "300", "--epochs", "1", "--repeats", "1", "--classes", "3", "--defenses", "marvell"])
    assert "marvell: not here: " in capsys.readouterr().out


def test_a_table_for_a_data_set_with_its_own_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--recipes", "wine:split=0.5", "--epochs", "1", "--repeats", "1", "--defenses", "laplace", "marvell"])
    head, _, laplace, _, left_out = capsys.readouterr().out.splitlines()
    assert head.startswith("| defense, wine:split=0.5 |")
    assert laplace.startswith("| laplace |")
    assert left_out.startswith("marvell: not here: ")
