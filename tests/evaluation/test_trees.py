"""The federation of trees from a spec to an outcome: who brings it, what it trains alone, what its parties see."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tune_vfl.attacks.base import ATTACKS
from tune_vfl.data.assemble import assemble
from tune_vfl.data.base import Columns, Dataset, Recipe
from tune_vfl.errors import NotGrantedError, SpecError
from tune_vfl.evaluation import evaluate
from tune_vfl.evaluation.alone import alone
from tune_vfl.evaluation.federations.base import FEDERATIONS
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import measured
from tune_vfl.evaluation.references import references_of
from tune_vfl.evaluation.resolving import open_task, resolve
from tune_vfl.evaluation.training import train_pack, untrained
from tune_vfl.protocol.members import Pack
from tune_vfl.spec import Named, Strict, Training, parse

RAW: dict[str, Any] = {
    "study": "s",
    "dataset": "breast_cancer",
    "model": {"name": "secureboost", "trees": 8, "depth": 3},
    "defense": "none",
    "budget": {"seeds": 2},
}
PACK = Pack((0,), None)


def task(**changes: Any) -> Any:
    return open_task(parse({**RAW, **changes}))


def trained(opened: Any, pack: Pack = PACK, names: tuple[str, ...] = ("tree_completion",)) -> Any:
    return train_pack(opened, [Strict()], pack, [ATTACKS[name]() for name in names])


def test_a_model_of_trees_brings_their_federation_and_the_attacks_on_it() -> None:
    cell = resolve(parse(RAW))
    assert (cell.federation.name, cell.mode, cell.training.epochs) == ("trees", "split", 8)
    assert [attack.name for attack in cell.attacks] == ["first_trees", "leaf_cluster", "tree_completion"]
    assert "embedding_dim" not in cell.model.options
    assert resolve(parse({**RAW, "federation": "trees"})) == cell


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"federation": "vertical"}, "model 'secureboost' is not for a vertical federation; those that are: .*mlp"),
        ({"federation": "trees", "model": "mlp"}, "'mlp' is not for a trees federation; those that are: secureboost"),
        ({"training": {"epochs": 3}}, "training.epochs: trees are trained by model.trees"),
        ({"training": {"lr": {"float": [0.1, 0.2]}}}, "training.lr: trees are trained by model.trees"),
        ({"model": {"name": "secureboost", "embedding_dim": 4}}, "embedding_dim: input should be 1, got 4"),
        ({"model": {"name": "secureboost", "depth": 11}}, "depth: input should be less than or equal to 10"),
        ({"defense": "laplace"}, "'laplace' is not for a trees federation; those that are: id_lmid, label_dp"),
        ({"defense": "gafm"}, "'gafm' is not for a trees federation; those that are: id_lmid, label_dp, local_trees"),
        ({"defense": "cae"}, "'cae' is not for a trees federation; those that are: id_lmid, label_dp, local_trees"),
        ({"attacks": ["pmc"]}, "attack 'pmc' is not for a trees federation"),
        ({"dataset": "digits"}, "model 'secureboost' reads table data, dataset 'digits' holds images"),
    ],
)
def test_what_does_not_belong_to_trees_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        resolve(parse({**RAW, **changes}))


def test_the_same_seed_grows_the_same_trees_and_another_one_others() -> None:
    opened = task(model={"name": "secureboost", "trees": 8, "rows": 0.7, "columns": 0.5})
    one, same, other = trained(opened), trained(opened), trained(opened, Pack((1,), None))
    told = [view_of(ATTACKS["tree_completion"](), run).granted("partitions") for run in (one, same, other)]
    assert torch.equal(told[0].leaves, told[1].leaves)
    assert not torch.equal(told[0].leaves, told[2].leaves)
    assert one.table["utility",] == same.table["utility",] != other.table["utility",]
    assert one.table["utility",][0] > 0.9


def test_watching_moves_nothing_and_a_view_holds_what_is_told_alone() -> None:
    opened = task()
    run = trained(opened)
    assert run.table["utility",] == train_pack(opened, [Strict()], PACK).table["utility",]
    view = view_of(ATTACKS["leaf_cluster"](), run)
    assert set(view.held) == {"partitions", "auxiliary"}
    with pytest.raises(NotGrantedError, match="'gradients'"):
        view.recording("last")
    told = view.granted("partitions")
    assert told.leaves.shape == (8, run.y_train.shape[-1])
    assert told.told.shape == (8, 15)
    assert told.told.all()


def test_leaves_that_are_kept_hide_little_of_the_partition() -> None:
    kept = view_of(ATTACKS["tree_completion"](), trained(task(model={**RAW["model"], "leaves": "kept"})))
    told = kept.granted("partitions").told
    assert told[:, :7].all()
    assert 0 < told[:, 7:].float().mean() < 1


def test_alone_are_the_label_partys_own_trees() -> None:
    opened = task()
    own = FEDERATIONS["trees"].of_one(opened.dataset)
    assert own is not None
    assert (own.passive, own.active) == ((opened.dataset.active,), None)
    values = alone(opened)
    same = replace(opened, dataset=own, cell=opened.cell.model_copy(update={"mode": "label_only"}))
    assert values == [trained(same, Pack((seed,), None)).table["utility",][0] for seed in (0, 1)]


def test_floors_are_what_the_party_finds_by_its_columns() -> None:
    opened = task()
    found = references_of(opened)
    assert set(found.floors[""]) == {"own columns", "tree_completion on an untrained model"}
    assert set(found.r_lower) == {"tree_completion"}
    assert not found.noise
    assert 0.85 < np.mean(found.r_lower["tree_completion"]) < 1
    assert list(untrained(opened, PACK).network.parameters()) == []


def test_one_tree_with_a_perfect_split_leaks_everything() -> None:
    """The label party's column is the label: the passive party's own says nothing, and the nodes say it all."""
    y = torch.arange(400) % 2
    noise = torch.rand(400, 3, generator=torch.Generator().manual_seed(0))
    shown = (Columns("passive", noise), Columns("active", y.unsqueeze(-1).float()))
    recipe = Recipe(model=Named(name="mlp"), training=Training(epochs=1), auxiliary_per_class=5)
    dataset = assemble("made_up", ((shown[0],), shown[1]), y, ("no", "yes"), metric="auc", recipe=recipe)
    raw = {**RAW, "dataset": "breast_cancer", "model": {"name": "secureboost", "trees": 1, "depth": 1}}
    opened = open_task(parse(raw), dataset=dataset)
    run = trained(opened, names=("tree_completion", "first_trees", "leaf_cluster"))
    assert run.table["utility",] == [1.0]
    assert run.table["logged", "splits_of_others"] == [0.0]
    table = measured(run, [ATTACKS[name]() for name in ("tree_completion", "first_trees", "leaf_cluster")])
    best = [
        max(v[0] for key, v in table.items() if key[:2] == ("attack", name) and key[-1] == "success")
        for name in ("tree_completion", "first_trees", "leaf_cluster")
    ]
    assert best == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dataset", ["wine", {"name": "breast_cancer", "split": 1}])
def test_more_classes_and_a_label_party_without_columns(dataset: Any) -> None:
    named = dataset if isinstance(dataset, str) else dataset["name"]
    settings = ["model.name=secureboost", "model.trees=8", *([] if named == "wine" else ["dataset.split=1"])]
    answer = evaluate(named, defense="none", attacks=["tree_completion", "first_trees"], seeds=2, settings=settings)
    assert answer["outcome"] == "ok", answer.get("reason")
    assert answer["utility"]["mean"] > 0.85
    assert answer["attacks"]["tree_completion"]["mean"] > 0.85


def test_each_of_several_parties_sees_the_nodes_and_attacks_by_itself() -> None:
    parties = {"name": "breast_cancer", "split": 0.6, "passive_parties": 2}
    opened: Dataset = task(dataset=parties).dataset
    assert len(opened.passive) == 2
    raw = {**RAW, "dataset": parties, "threat": {"parties": "together"}}
    run = trained(open_task(parse(raw)))
    table = measured(run, [ATTACKS["tree_completion"]()])
    assert {key[1] for key in table if key[0] == "attack"} >= {
        f"tree_completion/{columns.party}" for columns in opened.passive
    } | {"tree_completion/together"}


def test_a_deadline_ends_the_rounds() -> None:
    with pytest.raises(TimeoutError, match="0 of 8 rounds of trees"):
        train_pack(task(), [Strict()], PACK, deadline=time.monotonic() - 1)
