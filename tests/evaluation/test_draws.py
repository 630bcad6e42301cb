"""Several draws of what attackers know and draw on one training: what they share, and what their mean is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.cells import cells
from tests.helpers.granted import SEEDS, trained
from tune_vfl.attacks.base import ATTACKS, Attack
from tune_vfl.data.split import auxiliary_rows
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.measuring import score_attack
from tune_vfl.evaluation.packs import evaluate_pack
from tune_vfl.evaluation.scoring import score_answer
from tune_vfl.evaluation.summarizing import CHOSEN, over_draws, standing
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.protocol.members import Pack
from tune_vfl.seeds import derive
from tune_vfl.spec import Strict
from tune_vfl.testing.attacks import said, world_for

PMC = {"name": "pmc", "variants": ["logreg"]}
cell_of = cells("training.epochs=2", defense="none")


def columns(*success: float, **beside: tuple[float, ...]) -> dict[str, Any]:
    return {"success": list(success), **{name: list(values) for name, values in beside.items()}}


def test_the_first_draw_is_the_seeds_own_and_another_one_has_seeds_of_its_own() -> None:
    _, run, view = trained()
    assert run.drawn == run.with_draw(0).drawn == run.pack
    assert run.with_draw(2).drawn == Pack(tuple(derive(seed, "draw/2") for seed in SEEDS), run.pack.trials)
    assert torch.equal(view_of(trained()[0], run.with_draw(0)).auxiliary.ids, view.auxiliary.ids)


def test_a_draw_changes_known_rows_hints_and_streams_and_nothing_that_was_trained() -> None:
    attack, run, view = trained()
    other = view_of(attack, run.with_draw(1))
    assert not torch.equal(other.auxiliary.ids, view.auxiliary.ids)
    assert torch.equal(other.auxiliary.labels.sort(-1).values, view.auxiliary.labels.sort(-1).values)
    recording, same = view.recording("epoch0"), other.recording("epoch0")
    assert torch.equal(recording.gradients, same.gradients)
    assert torch.equal(recording.ids, same.ids)
    assert not torch.equal(view.positive_hints(recording, 3), other.positive_hints(same, 3))
    assert not torch.equal(view.streams.fresh("x").normal(4), other.streams.fresh("x").normal(4))
    for member, seed in enumerate(SEEDS):
        y = run.split.y_train[member]
        expected = auxiliary_rows(y, per_class=10, seed=derive(seed, "draw/1"))
        assert torch.equal(other.auxiliary.ids[member], expected)


def test_a_member_alone_has_the_draws_that_it_has_in_the_pack() -> None:
    attack, run, _ = trained()
    whole = view_of(attack, run.with_draw(1))
    for member in range(4):
        alone = view_of(attack, run.member(member).with_draw(1))
        assert torch.equal(alone.auxiliary.ids, whole.auxiliary.ids[member])
        hints = whole.positive_hints(whole.recording("last"), 2)[member]
        assert torch.equal(alone.positive_hints(alone.recording("last"), 2), hints)
        assert torch.equal(alone.streams.fresh("x").normal(4), whole.streams.fresh("x").normal(4)[member])


def test_means_over_draws_are_taken_of_what_the_attacker_would_choose_in_each() -> None:
    attack = ATTACKS["pmc"]()
    draws = [
        {"a": columns(0.9, 0.5, validation=(0.9, 0.1)), "b": columns(0.5, 0.6, validation=(0.1, 0.2))},
        {"a": columns(0.8, 0.7, validation=(0.3, 0.9)), "b": columns(0.6, 0.4, validation=(0.4, 0.1))},
    ]
    found = over_draws(attack, draws)
    assert found["a"] == {"success": pytest.approx([0.85, 0.6]), "validation": pytest.approx([0.6, 0.5])}
    assert found[CHOSEN]["success"] == pytest.approx([0.75, 0.65])  # by the means of validation a: .85, .6
    assert standing(attack, found) == {CHOSEN: found[CHOSEN]}
    assert over_draws(attack, draws[:1]) == draws[0]


def test_without_a_choice_there_is_a_mean_of_each_variant_and_nothing_else() -> None:
    attack = ATTACKS["norm"]()
    found = over_draws(attack, [{"a": columns(0.9), "b": columns(0.5)}, {"a": columns(0.7), "b": columns(0.6)}])
    assert found == {"a": {"success": pytest.approx([0.8])}, "b": {"success": pytest.approx([0.55])}}
    kept = over_draws(attack, [{"a": columns(0.9), "b": columns(0.5)}, {"a": columns(0.7)}])
    assert kept == {"a": {"success": pytest.approx([0.8])}, "b": columns(0.5)}
    undefined = over_draws(attack, [{"a": columns(0.9)}, {"a": columns(float("nan"))}])
    assert np.isnan(undefined["a"]["success"]).all()


def one_by_one(attack: Attack[Strict], run: Any, draw: int) -> dict[str, Any]:
    answers = attack.run(view_of(attack, run.with_draw(draw)))
    return {v: score_answer(a, run.y_train, run.y_test, 2, run.pack.seed_of_each) for v, a in answers.items()}


def test_an_attack_s_success_is_the_mean_over_its_draws_and_its_p_value_that_of_the_first() -> None:
    task = Task.open(cell_of(PMC))
    (attack,) = task.watching
    assert attack.draws > 1
    run = train_pack(task, [Strict()], Pack(SEEDS, 1), task.watching)
    each = [one_by_one(attack, run, draw)["logreg"] for draw in range(attack.draws)]
    table = score_attack(attack, run)
    for column in ("success", "validation", "top1"):
        expected = np.mean([of[column] for of in each], axis=0)
        np.testing.assert_allclose(table["attack", "pmc", "logreg", column], expected)
    assert each[0]["success"] != each[1]["success"]
    first = score_attack(attack, run, [0])
    assert table["permuted", "pmc", "logreg"] == first["permuted", "pmc", "logreg"]


def test_of_an_attack_that_names_its_answer_the_other_variants_are_those_of_the_first_draw() -> None:
    task = Task.open(cell_of("gradient_completion"))
    (attack,) = task.watching
    run = train_pack(task, [Strict()], Pack(SEEDS, 1), task.watching)
    table = score_attack(attack, run)
    draws = [one_by_one(attack, run, draw) for draw in range(attack.draws)]
    for variant, scored in draws[0].items():
        expected = scored["success"]
        if variant == attack.choice:
            expected = np.mean([of[variant]["success"] for of in draws], axis=0)
        np.testing.assert_allclose(table["attack", attack.name, variant, "success"], expected)


def test_what_costs_as_much_as_a_training_and_what_rests_on_its_known_rows_is_scored_on_one_draw() -> None:
    def draws_of(name: str, **params: Any) -> int:
        return ATTACKS[name](ATTACKS[name].Params(**params)).draws

    assert draws_of("pmc", variants=("logreg", "mixmatch_frozen")) == draws_of("pmc") == 1
    assert draws_of("active", variants=("logreg",)) == draws_of("pmc", variants=("logreg",)) == 2
    one = [name for name in ATTACKS.names() if draws_of(name) == 1]
    more = {"gradient_completion", "first_trees", "tree_completion"}
    assert set(ATTACKS.names()) - set(one) == more, "list one with more `draws` by default"
    assert draws_of("embedding_extension", variants=("logreg",)) == 1


def as_listed(name: str) -> Attack[Strict]:
    cls = ATTACKS[name]
    return cls(cls.Params(**(cls.in_default or cls.quick)))


@pytest.mark.parametrize("name", [name for name in ATTACKS.names() if as_listed(name).draws > 1])
def test_another_draw_gives_another_answer_and_in_a_pack_the_one_that_a_member_has_alone(name: str) -> None:
    attack = as_listed(name)
    run = world_for(ATTACKS[name], [7, 8]).played([attack])
    first, other = (attack.run(view_of(attack, run.with_draw(draw))) for draw in (0, 1))
    alone = attack.run(view_of(attack, run.member(1).with_draw(1)))
    assert first.keys() == other.keys() == alone.keys()
    assert any(not torch.equal(said(first[variant]), said(other[variant])) for variant in first)
    for variant, answer in alone.items():
        assert ((said(answer) - said(other[variant])[1]).abs() > 2e-3).float().mean() <= 0.005, variant


def test_a_pack_of_trials_has_the_numbers_that_trials_have_alone() -> None:
    attacks = [{"name": "pmc", "variants": ["logreg", "logreg_all"]}, "grad_cluster", "gradient_completion"]
    cell = cell_of(defense="laplace", attacks=attacks, budget={"trials": 1, "seeds": 2})
    settings = [{"scale": 0.001}, {"scale": 0.01}]
    together = evaluate_pack(cell, settings)
    for outcome, params in zip(together, settings, strict=True):
        (alone,) = evaluate_pack(cell, [params])
        for name, score in alone.attacks.items():
            assert outcome.attacks[name].values == pytest.approx(score.values, abs=2e-3), name
