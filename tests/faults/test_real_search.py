"""A search of real trainings that is killed at one moment after another, beside one that is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SPEC = {
    "study": "killed",
    "dataset": "breast_cancer",
    "defense": {"name": "gaussian", "space": {"sigma": {"choice": [0.0001, 0.01, 0.1]}}},
    "sampler": "grid",
    "attacks": ["default"],
    "training": {"epochs": 10},
    "budget": {"trials": 3, "seeds": 3},
}


def tune_vfl(home: Path, *words: str) -> subprocess.Popen[str]:
    """Start the program in a process group of its own."""
    environment = {**os.environ, "TUNE_VFL_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-m", "tune_vfl", *words],
        env=environment, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def killed_after(seconds: float, process: subprocess.Popen[str]) -> bool:
    """Kill a search and all its workers after a while; return whether it had not ended by itself."""
    try:
        said = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        print(process.communicate()[0].splitlines()[-1:])  # pytest -s shows at which moments
        return True
    assert process.returncode == 0, said
    return False


def answers(home: Path) -> list[dict[str, Any]]:
    """Return what ``frontier`` says of the study, and the scores of all its trials."""
    out = tune_vfl(home, "frontier", "killed", "--format", "json").communicate()[0]
    found: list[dict[str, Any]] = json.loads(out)
    return sorted(found, key=lambda trial: trial["params"]["sigma"])


@pytest.mark.slow
def test_a_search_that_is_killed_at_every_moment_ends_with_the_answers_of_one_that_was_not(tmp_path: Path) -> None:
    """After 4 s, 7 s and so on: in floors, in the model without defense, with scores that wait for them."""
    alone, often = tmp_path / "alone", tmp_path / "often"
    for home in (alone, often):
        home.mkdir()
        (home / "study.yaml").write_text(json.dumps(SPEC))
    assert not killed_after(600, tune_vfl(alone, "search", "study.yaml"))
    words, kills = ("search", "study.yaml"), 0
    while killed_after(4 + 3 * kills, tune_vfl(often, *words)):
        kills += 1
        words = ("resume", "killed") if (often / "ledger.db").exists() else words
    assert kills >= 3
    expected, found = answers(alone), answers(often)
    assert any(trial["not_needed"] for trial in expected), "an attack was left out of a setting"
    for before, after in zip(expected, found, strict=True):
        number = before.pop("number"), after.pop("number")
        assert after == before, number
