"""Attackers that are tuned against one setting: on half of the rows, scored on the other half, and never beside it."""

import numpy as np
import pytest
import torch

from tests.helpers.cells import cells
from tune_vfl.attacks import GradientCompletion, Norm, Pmc
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import adaptive
from tune_vfl.evaluation.adaptive import _halves, _Tuner, tuned_attack
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.answers import Answer
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import numpy_rng
from tune_vfl.spec import References

cell_of = cells("training.epochs=3")


def tuned(*attacks, most=8, seeds=2, **changes):
    task = Task.open(cell_of(*attacks, budget={"trials": 1, "seeds": seeds}, **changes))
    params = defense_params(task.cell.defense, {}, num_classes=task.cell.num_classes)
    return tuned_attack(task, params, minutes=1.0, most=most)


@pytest.fixture(scope="module")
def found():
    return tuned({"name": "norm", "moments": ["last"]}, "gradient_completion", "mean")


def test_the_best_attacker_is_named_with_what_was_changed_and_scored_by_seed(found):
    assert found.attack in ("norm", "gradient_completion"), "an oracle is not tuned"
    assert found.tried == 8
    assert len(found.success) == len(found.floors) == len(found.advantages) == 2
    assert all(0 <= s <= 1 for s in (*found.success, *found.floors))
    gain = (np.mean(found.success) - np.mean(found.floors)) / (1 - np.mean(found.floors))
    assert np.mean(found.advantages) == pytest.approx(gain)


def test_the_same_seeds_find_the_same_attacker(found):
    assert tuned({"name": "norm", "moments": ["last"]}, "gradient_completion", "mean") == found


def test_without_an_attack_that_can_be_tuned_there_is_nobody():
    assert tuned("mean") is None


@pytest.mark.parametrize("attack", [{"name": "norm", "moments": ["last"]}, {"name": "pmc", "variants": ["logreg"]}])
def test_a_tuned_attacker_is_held_against_the_best_that_its_party_reaches_by_itself(attack, monkeypatch):
    """Or against what it reaches itself without messages, as it was tuned."""
    own = References(floors={"": {"own columns": [0.998, 0.999]}})
    monkeypatch.setattr(adaptive, "references_once", lambda _task, device: own)
    assert tuned(attack, most=1).floors == (0.998, 0.999)
    monkeypatch.setattr(adaptive, "references_once", lambda _task, device: References())
    by_itself = tuned(attack, most=1).floors
    assert by_itself == (0.5, 0.5) if attack["name"] == "norm" else 0.8 < min(by_itself) <= max(by_itself) < 0.998


def test_the_halves_part_the_rows_and_differ_by_seed():
    task = Task.open(cell_of("norm"))
    params = defense_params(task.cell.defense, {}, num_classes=2)
    run = train_pack(task, [params], Pack((0, 1), 1), task.attacks)
    rows = run.y_train.shape[-1]
    ids = torch.arange(rows).expand(2, rows)
    one, other = _halves(Answer(scores=run.y_train.float(), ids=ids, oriented=True), run)
    assert one == other == [1.0, 1.0]
    first = torch.zeros(2, rows, dtype=torch.bool)
    first[:, : rows // 2] = True
    halves = _halves(Answer(scores=run.y_train.float(), ids=ids, oriented=True, counted=first), run)
    assert halves == ([1.0, 1.0], [1.0, 1.0]), "rows that do not count are in neither half"
    # Right on the half that is tuned on and wrong on the other one: only the first number may be good.
    drawn = [numpy_rng(seed, "adaptive/half").permutation(rows) < rows // 2 for seed in (0, 1)]
    mine = torch.from_numpy(np.stack(drawn))
    assert (mine[0] != mine[1]).any()
    told = torch.where(mine, run.y_train, 1 - run.y_train).float()
    assert _halves(Answer(scores=told, ids=ids, oriented=True), run) == ([1.0, 1.0], [0.0, 0.0])


def test_the_tuner_asks_for_nothing_twice_and_stops_when_all_was_tried():
    attack = Norm()
    tuner = _Tuner([attack], epochs=8)
    tuner.known = {("norm", ()): 0.1}
    asked = []
    while (found := tuner.ask()) is not None:
        asked.append(found[1]["average"])
        tuner.tell(0.2)
    assert sorted(asked) == [0, 2, 4]
    assert _Tuner([ATTACKS["bli"]()], epochs=8).ask() is None


@pytest.mark.parametrize("epochs", [1, 2, 7, 100])
@pytest.mark.parametrize("name", list(ATTACKS.names()))
def test_what_an_attack_may_vary_are_values_that_its_parameters_take(name, epochs):
    attack = ATTACKS[name]()
    for field, values in attack.tunable(epochs).items():
        assert len(values) > 1 or epochs < 2
        for value in values:
            attack.Params.model_validate({field: value})


def test_one_head_reads_what_it_is_told_to():
    with pytest.raises(ValueError, match="gradient@last"):
        GradientCompletion.Params(reads=("gradients",))
    task = Task.open(cell_of("gradient_completion", "pmc"))
    params = defense_params(task.cell.defense, {}, num_classes=2)
    run = train_pack(task, [params], Pack((0, 1), 1), task.attacks)

    def success(**fields):
        table = score_attack(GradientCompletion(GradientCompletion.Params(**fields)), run)
        assert {key[2] for key in table} == {"gradient_completion"}
        return table["attack", "gradient_completion", "gradient_completion", "success"]

    alone, joined = success(reads=("norm@last",)), success(reads=("norm@last", "features", "embedding"))
    assert alone != joined
    assert success(reads=("features",), strength=1e-6) != success(reads=("features",), strength=10.0)
    assert Pmc().tunable(4)["variants"][0] == ("logreg", "logreg_all", "conditioned")


def test_a_head_that_has_nothing_to_read_says_so(monkeypatch):
    import tune_vfl.attacks.gradient_completion as module

    monkeypatch.setattr(module, "_own_blocks", lambda view: {})
    task = Task.open(cell_of("gradient_completion"))
    run = train_pack(task, [defense_params("laplace", {}, num_classes=2)], Pack((0, 1), 1), task.attacks)
    attack = GradientCompletion(GradientCompletion.Params(reads=("features",)))
    with pytest.raises(SpecError, match="nothing here"):
        attack.run(view_of(attack, run))
