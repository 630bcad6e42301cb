"""What a party's own columns and a few labels say without a federation."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.cells import cells
from tune_vfl.attacks.base import build_attack
from tune_vfl.evaluation import columns_alone
from tune_vfl.evaluation.columns_alone import ColumnsAlone
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.references import references_of
from tune_vfl.evaluation.run import Run
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import untrained
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Named

PACK = Pack((0, 1), 1)
cell_of = cells("training.epochs=1", defense="none")


def with_columns(x: Tensor) -> Run:
    """Return an untrained pack whose passive party has these columns."""
    run = untrained(Task.open(cell_of("norm")), PACK)
    return replace(run, split=replace(run.split, passive_train=[x]))


def success(run: Run, draw: int = 0) -> list[float]:
    return score_attack(ColumnsAlone(), run, [draw])["attack", "own columns", "ridge", "success"]


def test_columns_of_noise_say_nothing_and_a_column_that_is_the_label_says_all() -> None:
    y = untrained(Task.open(cell_of("norm")), PACK).y_train
    noise = torch.randn(*y.shape, 6, generator=torch.Generator().manual_seed(0))
    assert success(with_columns(noise)) == pytest.approx([0.5, 0.5], abs=0.1)
    assert min(success(with_columns(torch.cat([noise, 20 * y.unsqueeze(-1)], -1)))) > 0.99


def test_a_rule_that_no_line_follows_is_found_by_the_kernel() -> None:
    """Each class is a shell around the mean of the columns."""
    y = untrained(Task.open(cell_of("norm")), PACK).y_train
    angle = 6.28 * torch.rand(y.shape, generator=torch.Generator().manual_seed(0))
    shells = (1.0 + 3 * y).unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], -1)
    assert min(success(with_columns(shells))) > 0.9


def test_known_rows_are_not_counted_and_members_do_not_touch_each_other() -> None:
    run = untrained(Task.open(cell_of("norm")), PACK)
    attack = ColumnsAlone()
    view = view_of(attack, run)
    answer = attack.run(view)["ridge"]
    assert answer.counted is not None
    counted = [set(ids[keep].tolist()) for ids, keep in zip(answer.ids, answer.counted, strict=True)]
    for member, known in zip(counted, view.auxiliary.ids.tolist(), strict=True):
        assert member == set(range(run.y_train.shape[-1])) - set(known)
    alone = [score_attack(attack, run.member(m), [0]) for m in (0, 1)]
    one_by_one = [table["attack", "own columns", "ridge", "success"][0] for table in alone]
    assert success(run) == pytest.approx(one_by_one, abs=1e-4)
    assert success(run) != pytest.approx(success(run, draw=1), abs=1e-4), "another draw knows other rows"


def test_a_floor_is_the_mean_over_two_draws_of_known_rows() -> None:
    run = untrained(Task.open(cell_of("norm")), PACK)
    found = references_of(run.task).floors[""]["own columns"]
    assert found == pytest.approx(np.mean([success(run, 0), success(run, 1)], axis=0))


def test_of_many_rows_those_that_are_scored_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained(Task.open(cell_of("norm")), PACK)
    whole = success(run)
    monkeypatch.setattr(columns_alone, "MOST", 100)
    view = view_of(ColumnsAlone(), run)
    answer = ColumnsAlone().run(view)["ridge"]
    steps = np.diff(answer.ids[0, :100].numpy())
    assert (steps.min(), steps.max(), answer.ids.shape[-1]) == (3, 4, 120), "of 398 rows, and the known ones"
    assert success(run) == pytest.approx(whole, abs=0.05)


def test_known_labels_say_which_class_is_which() -> None:
    """Taught the other way round it is wrong, and no credit is given for that."""
    run = untrained(Task.open(cell_of("norm")), PACK)
    run = with_columns(20.0 * run.y_train.unsqueeze(-1))
    alone = ColumnsAlone()
    view = view_of(alone, run)
    wrong = view.holding(auxiliary=replace(view.auxiliary, labels=1 - view.auxiliary.labels))
    answer = alone.run(wrong)["ridge"]
    assert max(score_answer(answer, run.y_train, run.y_test, 2, list(PACK.seeds))["success"]) < 0.01


def test_a_party_knows_as_many_rows_as_the_best_informed_of_its_attacks_or_the_threat_s_number() -> None:
    few, many = (build_attack(Named(name="pmc", aux_per_class=number)) for number in (4, 7))
    random = build_attack(Named(name="pmc", aux="random", aux_total=9))
    for among, known in (
        ([few, many], 7),
        ([few, random], 4),
        ([random], None),
        ([few, build_attack(Named(name="pmc"))], None),
    ):
        assert ColumnsAlone(among).auxiliary_request().per_class == known
