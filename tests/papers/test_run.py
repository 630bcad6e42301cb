"""A table's run with this process for workers: what is kept, given up, refused for time, and left by Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.driver.conftest import Workers
from tests.helpers.simulated import SimulatedTrainable
from tests.papers.test_tables import FILE
from tune_vfl.execution.losses import MAX_NODE_LOSSES
from tune_vfl.execution.trainable_spec import TrainableSpec
from tune_vfl.papers.reading import read_paper
from tune_vfl.papers.results import TableResults, read_results, write_results
from tune_vfl.papers.run import Reproduced, reproduce

pytestmark = pytest.mark.usefixtures("home")

NAME, LABEL = "test-table1", "breast_cancer: none"


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = read_paper(FILE, "test.yaml")
    monkeypatch.setattr("tune_vfl.papers.run.find_table", lambda name: (paper, paper.tables[name]))


def go(folder: Path, said: list[str] | None = None, minutes: float | None = None) -> Reproduced:
    say = (lambda _: None) if said is None else said.append
    return reproduce(NAME, folder, seeds=3, minutes=minutes, say=say, work=TrainableSpec(SimulatedTrainable, {}))


def seeds_of(ended: Reproduced) -> list[int]:
    return sorted(ended.results.evaluations[LABEL].seeds)


def test_every_seed_is_measured_once(workers: Workers, tmp_path: Path) -> None:
    ended = go(tmp_path)
    assert (seeds_of(ended), ended.stopped, dict(ended.failed)) == ([0, 1, 2], False, {})
    assert workers.together == 2
    assert seeds_of(go(tmp_path)) == [0, 1, 2]
    assert len(workers.packs) == 3


def test_a_seed_whose_machine_goes_away_each_time_is_given_up(workers: Workers, tmp_path: Path) -> None:
    workers.fate = lambda pack: "node" if '"seeds":[1]' in pack["cell"] else None
    said: list[str] = []
    ended = go(tmp_path, said)
    reason = f"seed 1: the machine that it ran on went away {MAX_NODE_LOSSES} times"
    assert dict(ended.failed) == {LABEL: reason}
    assert f"{LABEL}: seed 1 could not be measured: {reason.removeprefix('seed 1: ')}" in said
    assert seeds_of(ended) == [0, 2]
    assert sum('"seeds":[1]' in pack["cell"] for pack in workers.packs) == MAX_NODE_LOSSES
    workers.fate = lambda _pack: None
    assert seeds_of(go(tmp_path)) == [0, 1, 2], "the next run tries it again"


def test_time_that_is_up_begins_no_seed_and_is_said(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def after(_searcher: Any) -> None:
        now[0] += 40.0

    workers.after, workers.room = after, 1
    ended = go(tmp_path, minutes=1)
    assert seeds_of(ended) == [0, 1]
    assert dict(ended.refused) == {LABEL: "the budget ended before its last seeds"}


def test_ctrl_c_ends_what_runs_and_keeps_it(workers: Workers, tmp_path: Path, ctrl_c: None) -> None:
    workers.room = 1
    workers.after = lambda _searcher: os.kill(os.getpid(), signal.SIGINT)
    said: list[str] = []
    ended = go(tmp_path, said)
    assert (ended.stopped, seeds_of(ended)) == (True, [0])
    assert said[-1] == "stopping: what runs now is finished and kept; press Ctrl-C again to leave at once"
    workers.after = lambda _searcher: None
    assert seeds_of(go(tmp_path)) == [0, 1, 2]


def test_seeds_of_an_older_recipe_give_way_to_those_of_another_table(workers: Workers, tmp_path: Path) -> None:
    go(tmp_path)
    own = tmp_path / f"{NAME}.json"
    (tmp_path / "test-table2.json").write_text(own.read_text(encoding="utf-8").replace(NAME, "test-table2"))
    kept = TableResults.model_validate_json(own.read_text(encoding="utf-8"))
    measured = kept.evaluations[LABEL]
    older = measured.model_copy(update={"raw": {**(measured.raw or {}), "training": {"epochs": 1}}})
    write_results(tmp_path, kept.model_copy(update={"evaluations": {LABEL: older}}))
    assert go(tmp_path, minutes=0).results.evaluations[LABEL].raw == measured.raw
    assert read_results(tmp_path, NAME).evaluations[LABEL].seeds == measured.seeds
    assert len(workers.packs) == 3, "nothing is run"
