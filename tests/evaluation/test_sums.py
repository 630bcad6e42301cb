"""Logistic regression from a spec to an outcome: what passive parties are told, and beside scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.errors import NotGrantedError, SpecError
from tune_vfl.evaluation import evaluate
from tune_vfl.evaluation.alone import alone
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.references import references_of
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.training import split_of, train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.sums import BatchSums
from tune_vfl.spec import Strict, Training, parse

RAW: dict[str, Any] = {
    "study": "s",
    "dataset": "breast_cancer",
    "model": "logistic",
    "defense": "none",
    "training": {"epochs": 3, "batch_size": 64},
    "budget": {"seeds": 2},
}
PACK = Pack((0,), None)


def task(**changes: Any) -> Any:
    return open_task(parse({**RAW, **changes}))


def trained(opened: Any, pack: Pack = PACK, names: tuple[str, ...] = ("residual_sums",)) -> Any:
    return train_pack(opened, [Strict()], pack, [ATTACKS[name]() for name in names])


def told_in(run: Any) -> BatchSums:
    told = view_of(ATTACKS["residual_sums"](), run).granted("sums")
    assert isinstance(told, BatchSums)
    return told


def test_logistic_regression_brings_its_federation_its_recipe_and_the_attack_on_sums() -> None:
    cell = resolve(parse({name: value for name, value in RAW.items() if name != "training"}))
    assert (cell.federation.name, cell.mode) == ("sums", "nosplit")
    assert cell.training == Training(epochs=30, batch_size=256, lr=0.1, lr_schedule="inverse_sqrt")
    assert [attack.name for attack in cell.attacks] == ["residual_sums"]
    assert cell.model.options == {"top": "none", "head": "auto"}
    assert resolve(parse({**RAW, "federation": "sums"})) == resolve(parse(RAW))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"federation": "horizontal"}, "model 'logistic' is not for a horizontal federation"),
        ({"federation": "sums", "model": "mlp"}, "'mlp' is not for a sums federation; those that are: logistic"),
        ({"model": {"name": "logistic", "embedding_dim": 4}}, "embedding_dim: input should be 1, got 4"),
        ({"model": {"name": "logistic", "aggregation": "mean"}}, "aggregation: input should be 'sum'"),
        ({"defense": "marvell"}, "'marvell' is not for a sums federation; those that are: gaussian, label_dp, noisy_s"),
        ({"attacks": ["norm"]}, "attack 'norm' is not for a sums federation"),
        ({"federation": "vertical", "attacks": ["residual_sums"]}, "'residual_sums' is not for a vertical federation"),
    ],
)
def test_what_does_not_belong_to_sums_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        resolve(parse({**RAW, **changes}))


def test_a_batch_tells_the_mean_of_residual_times_column_and_nothing_else() -> None:
    opened = task()
    run = trained(opened)
    told, x = told_in(run), run.x_train
    count, columns = x.shape
    assert told.values.shape == told.weights.shape == (3, -(-count // 64), 1, columns)
    assert not told.weights[0, 0].any()
    rows = told.order[0, :64]
    residual = 0.5 - run.y_train[rows].float()  # all weights are 0 before the first step
    torch.testing.assert_close(told.values[0, 0, 0], residual @ x[rows] / 64)
    assert all(torch.equal(order.sort().values, torch.arange(count)) for order in told.order)
    view = view_of(ATTACKS["residual_sums"](), run)
    assert set(view.held) == {"sums", "features", "auxiliary", "class_prior"}
    with pytest.raises(NotGrantedError, match="'gradients'"):
        view.recording("last")


def test_watching_moves_nothing_and_members_of_a_pack_are_told_what_they_are_alone() -> None:
    opened = task()
    together = trained(opened, Pack((0, 1), 1))
    assert together.table["utility",] == train_pack(opened, [Strict()], Pack((0, 1), 1)).table["utility",]
    for seed in (0, 1):
        one, alike = told_in(trained(opened, Pack((seed,), None))), told_in(together).of_members(seed)
        assert torch.equal(one.order, alike.order)
        torch.testing.assert_close(one.values, alike.values, rtol=1e-4, atol=1e-6)
        assert torch.equal(told_in(together.member(seed)).values, alike.values)


def test_parties_together_know_the_sums_of_all_their_columns() -> None:
    run = trained(task(dataset={"name": "breast_cancer", "split": 0.6, "passive_parties": 2}))
    parts = [told_in(run.seen_by((party,))) for party in (0, 1)]
    both = told_in(run.seen_by((0, 1)))
    assert both.values.shape[-1] == run.seen_by((0, 1)).x_train.shape[-1]
    assert torch.equal(both.values, torch.cat([part.values for part in parts], -1))


def test_scores_are_those_of_scikit_learns_on_all_columns() -> None:
    """Trained to the end under the same penalty, on the intercept too: a column of ones stands for scikit-learn's."""
    run = trained(task(training={"epochs": 3000, "batch_size": 1000, "lr": 0.05, "weight_decay": 0.01}))
    x, y = (torch.cat(run.split.features(part), -1).double().numpy() for part in ("train", "test")), run.split.y_train
    train, test = (np.column_stack([part, np.ones(len(part))]) for part in x)
    model = LogisticRegression(C=1 / (0.01 * len(y)), fit_intercept=False, tol=1e-8, max_iter=10_000)
    theirs = model.fit(train, y.numpy()).decision_function(test)
    with torch.no_grad():
        ours = run.network(list(run.split.passive_test), run.split.active_test).squeeze(-1).numpy()
    np.testing.assert_allclose(ours, theirs, atol=0.02)
    assert run.table["utility",][0] == pytest.approx(roc_auc_score(run.split.y_test, theirs), abs=1e-3)


def test_a_row_whose_residual_is_in_the_open_has_no_secret() -> None:
    settings = ("model.name=logistic", "federation=vertical")
    answer = evaluate("breast_cancer", defense="none", attacks=["default"], seeds=2, settings=settings)
    assert answer["outcome"] == "ok", answer.get("reason")
    assert answer["leakage"] == 1.0


def test_alone_are_the_label_partys_own_columns() -> None:
    opened = task()
    own = FEDERATIONS["sums"].of_one(opened.dataset)
    assert own is not None
    assert (own.passive, own.active) == ((opened.dataset.active,), None)
    split = split_of(opened, PACK)
    assert split.active_train is not None
    assert split.active_test is not None
    fitted = LogisticRegression(max_iter=5000).fit(split.active_train.numpy(), split.y_train.numpy())
    theirs = roc_auc_score(split.y_test, fitted.decision_function(split.active_test.numpy()))
    longer = alone(task(training={"epochs": 100, "batch_size": 64, "lr": 0.05}))
    assert longer[0] == pytest.approx(theirs, abs=0.01)


def test_the_floor_is_what_the_party_finds_by_its_columns() -> None:
    found = references_of(task())
    assert set(found.floors[""]) == {"own columns", "residual_sums on an untrained model"}
    assert 0.85 < np.mean(found.r_lower["residual_sums"]) < 1


@pytest.mark.parametrize("dataset", ["wine", {"name": "breast_cancer", "split": 1}])
def test_more_classes_and_a_label_party_without_columns(dataset: Any) -> None:
    named = dataset if isinstance(dataset, str) else dataset["name"]
    settings = ("model.name=logistic", "training.batch_size=16", *([] if named == "wine" else ["dataset.split=1"]))
    answer = evaluate(named, defense="none", attacks=["residual_sums"], seeds=2, settings=settings)
    assert answer["outcome"] == "ok", answer.get("reason")
    assert answer["utility"]["mean"] > 0.9
    assert answer["attacks"]["residual_sums"]["mean"] > answer["attacks"]["residual_sums"]["floor"]
    assert answer["attacks"]["residual_sums"]["mean"] > 0.95
