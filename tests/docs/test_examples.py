"""Every public name has an example in its docstring, and it gives what stands there."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import tune_vfl
import tune_vfl.attacks
import tune_vfl.defenses
import tune_vfl.metrics
import tune_vfl.statistics
from tests.helpers.ledgers import open_ledger
from tune_vfl.outcome import Outcome, Score

PACKAGES = (tune_vfl, tune_vfl.attacks, tune_vfl.defenses, tune_vfl.metrics, tune_vfl.statistics)
# Registries and the decorators that fill them; CONTRIBUTING.md has an example of a class with its decorator.
TABLES = {"ATTACKS", "DEFENSES", "METRICS", "attack", "defense"}
SLOW = {"search": "starts a Ray"}


def named(package: ModuleType) -> list[str]:
    return [name for name in package.__all__ if name not in TABLES]


EXAMPLES = [
    pytest.param(p.__name__, n, id=f"{p.__name__}.{n}", marks=pytest.mark.slow if n in SLOW else ())
    for p in PACKAGES
    for n in named(p)
]


@pytest.fixture
def studied(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of two settings, and the file that one of them was exported to, in the working folder."""
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger(budget={"trials": 2, "seeds": 2})
    for scale, utility, leakage in ((0.01, [0.8, 0.9], 0.5), (0.001, [0.9, 0.9], 0.6)):
        score = Score.of("auc", utility)
        ledger.tell(ledger.begin({"scale": scale}), Outcome(outcome="ok", utility=score, leakage=leakage))
    ledger.close()
    tune_vfl.load_study("study").export("max-utility", "best.json")


@pytest.mark.parametrize(("package", "name"), EXAMPLES)
def test_an_example_gives_what_stands_there(package: str, name: str, request: pytest.FixtureRequest) -> None:
    if package == "tune_vfl":
        request.getfixturevalue("studied")
    found = getattr(importlib.import_module(package), name)
    (test,) = doctest.DocTestFinder(recurse=False, exclude_empty=False).find(found, name, globs={})
    assert test.examples, f"{package}.{name} has no example in its docstring"
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert told == []
