"""What `benchmarks.decision` makes of two runs, and what its probe counts."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.decision import PROBES, Run, by_stage, compared, difference, key_of

PROGRAM = """
from types import SimpleNamespace


def work(*_):
    return sum(range(2_000_000))

import sitecustomize
score = sitecustomize.timed(lambda attack, run: work(), sitecustomize.of_attack)
train = sitecustomize.timed(work, "training")

def evaluate(cls, spec):
    train()
    score(SimpleNamespace(name="norm"), None)

whole = sitecustomize.timed(evaluate, sitecustomize.of_cell)
whole(None, SimpleNamespace(defense="laplace"))
whole(None, SimpleNamespace(defense="none"))
"""


def a_trial(utility: float, **attacks: float) -> dict[str, Any]:
    scores = {name: {"values": [v], "advantages": [v - 0.5], "floors": [0.5]} for name, v in attacks.items()}
    return {"outcome": "ok", "utility": {"values": [utility]}, "attacks": scores, "leakage": 0.1}


def a_run(*trials: dict[str, Any], front: tuple[int, ...] = (0,)) -> Run:
    keys = [key_of(("laplace", "mid")[i % 2], {"x": i}) for i in range(len(trials))]
    kept = {keys[i]: {"utility": trials[i]["utility"]["values"][0]} for i in front}
    return Run(1.0, 2.0, {}, dict(zip(keys, trials, strict=True)), kept)


def test_equal_runs_differ_by_nothing() -> None:
    one = a_run(a_trial(0.9, norm=0.7), a_trial(0.8, norm=0.6))
    trials, *_, front = compared(one, one)
    assert "0 ended otherwise, 0 with other attacks" in trials
    assert front == "front: the same 1 settings, within 0"


def test_numbers_that_moved_are_told() -> None:
    still = a_trial(0.8, norm=0.6)
    one, other = a_run(a_trial(0.9, norm=0.7), still), a_run(a_trial(0.9, norm=0.7 + 1e-4), still)
    trials, laplace, mid, _ = compared(one, other)
    assert "values 0.0001" in trials
    assert laplace.startswith("laplace: utility 0, values 0.0001")
    assert mid.startswith("mid: utility 0, values 0,")


def test_an_attack_that_was_left_for_later_is_told_and_hides_no_difference() -> None:
    trials, *_ = compared(a_run(a_trial(0.9, norm=0.7, pmc=0.8)), a_run(a_trial(0.9, norm=0.75)))
    assert "1 with other attacks" in trials
    assert "values 0.05" in trials


def test_another_front_is_told() -> None:
    both = a_trial(0.9, norm=0.7), a_trial(0.8, norm=0.6)
    said = compared(a_run(*both, front=(0,)), a_run(*both, front=(0, 1)))[-1]
    assert said == "front: DIFFERENT, 1 of 1 settings are on one of them only: {'mid': 1}"


def test_other_trials_are_told() -> None:
    (line,) = compared(a_run(a_trial(0.9, norm=0.7)), a_run(a_trial(0.9, norm=0.7), a_trial(0.8, norm=0.6)))
    assert line.startswith("other trials: 1")


@pytest.mark.parametrize(("one", "other"), [({"a": 1.0}, {"b": 1.0}), ([1.0], [1.0, 2.0]), ("x", "y"), (None, 0.5)])
def test_what_says_other_things_is_no_rounding(one: Any, other: Any) -> None:
    assert difference(one, other) == math.inf


def test_stages_add_up_to_all_that_was_used() -> None:
    processes = [
        {"command": ["python", "-m", "tune_vfl", "search", "x"], "cpu": 5.0, "stages": {}},
        {"command": ["python", "-m", "tune_vfl", "report", "x"], "cpu": 2.0, "stages": {}},
        {"command": ["worker.py"], "cpu": 20.0, "stages": {"starting workers": 3.0, "training": 16.0}},
        {"command": ["worker.py"], "cpu": 1.0, "stages": {}},
    ]
    stages = by_stage(processes, 30.0)
    assert sum(stages.values()) == pytest.approx(30.0)
    assert stages["starting workers"] == pytest.approx(4.0)
    assert stages["Ray, with workers that wait"] == pytest.approx(3.0)


def test_the_probe_counts_a_second_once_and_the_undefended_model_as_a_whole(tmp_path: Path) -> None:
    places = {"PYTHONPATH": str(PROBES), "TUNE_VFL_STAGES": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env={**os.environ, **places})
    (told,) = [json.loads(one.read_text()) for one in tmp_path.iterdir()]
    assert set(told["stages"]) == {
        "starting workers",
        "training",
        "attack norm",
        "trials, the rest",
        "undefended model",
    }
    assert sum(told["stages"].values()) <= told["cpu"]
    work = told["stages"]["training"]
    assert told["stages"]["undefended model"] == pytest.approx(2 * work, rel=0.8)
