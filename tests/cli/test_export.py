"""``tune-vfl export`` without ``--select``, and what ``status`` says of the same decision."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.service.test_notebook import simulated
from tune_vfl import load_config
from tune_vfl.errors import SelectionError

pytestmark = pytest.mark.usefixtures("home")

LEAKY = (0.0, 0.2, 0.9)
"""Places of a front whose best compromise leaks more than half."""


def test_what_is_deployed_is_exported(run: Run, tmp_path: Path) -> None:
    study = simulated("study")
    assert run("export", "study", "-o", tmp_path / "best.json")[0] == 0
    config = load_config(tmp_path / "best.json")
    assert (config.trial, config.select) == (1, "decision")
    decision = json.loads(run("status", "study", "--json")[1])["decision"]
    assert (decision["verdict"], decision["number"]) == ("deploy", 1)
    assert "\n".join(decision["says"]) in run("status", "study")[1]
    assert study.export() == config


def test_a_compromise_is_exported_when_it_is_chosen(run: Run, tmp_path: Path) -> None:
    study, best = simulated("study", LEAKY), tmp_path / "best.json"
    code, out, err = run("export", "study", "-o", best)
    assert (code, out, best.exists()) == (2, "", False)
    assert err.startswith("tune-vfl: A compromise on breast_cancer: laplace scale=")
    choices = [line.split()[1].strip("'") for line in err.splitlines()[1:-1]]
    assert choices == ["study#2", "study#3", "knee"]
    assert err.splitlines()[-2] == "  --select knee  takes the compromise all the same: laplace scale=6.31e-5"
    assert json.loads(run("export", "study", "-o", best, "--select", "knee", "--json")[1])["trial"] == 1
    for by in choices[:2]:
        assert run("export", "study", "-o", best, "--select", by)[0] == 0
        assert load_config(best).trial == int(by[-1])
    with pytest.raises(SelectionError, match="--select knee"):
        study.export()
    recommended = study.recommend()
    assert (recommended.verdict, recommended.setting) == ("compromise", None)
    assert [rung.setting and rung.setting.number for rung in recommended.ladder] == [2, 2, 3]
    said = run("status", "study")[1]
    assert "Deploy" not in said
    assert str(recommended) in said
    assert study.recommend(leakage=0.2).setting == recommended.ladder[1].setting
