"""Matched filter: worlds that only all epochs together give away, packs of members, and real trainings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.helpers.visits import FILTER, ROWS, packed, success, swapped, visits_of, world
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.protocol.granted import Features

VARIANTS = {"matched_filter", "filter", "with_means", "taught", "with_taught"}
OF_TWO = VARIANTS | {"halves", "clipped_halves"}
"""Those of two classes."""


def chance(rows, classes, worlds):
    """Return four standard errors of the success of a guess, of so many independent worlds."""
    return 4 * ((1 / 12 / rows if classes == 2 else 1 / classes / rows) / worlds) ** 0.5 + 0.01


@pytest.mark.parametrize("classes", [2, 4])
def test_all_epochs_together_say_what_no_single_one_does(classes):
    y, view = world(classes=classes, noise=2.0, jump=0.8, features=1.0)
    answers = FILTER().run(view)
    assert set(answers) == (OF_TWO if classes == 2 else VARIANTS)
    assert success(answers["matched_filter"], y) > (0.97 if classes == 2 else 0.9)
    alone = []
    for one in view.granted("visits").received:
        oracle = torch.stack([one[y == k].mean(0) for k in range(classes)])
        nearest = -torch.cdist(one, oracle)
        scored = nearest.numpy(), y.numpy()
        alone.append(leak_auc(*scored, flip=False) if classes == 2 else top1(*scored))
    assert max(alone) < 0.88, "one epoch would do"


def test_classes_that_own_columns_do_not_tell_are_found_from_few_known_rows():
    y, view = world(noise=1.0, features=0.0)
    assert success(FILTER().run(view)["matched_filter"], y) > 0.95


def test_with_many_classes_it_finds_more_than_own_columns_say_and_more_than_gradients_alone():
    y, view = world(classes=10, noise=3.0, jump=0.8, features=1.5)
    found = success(FILTER().run(view)["filter"], y)
    silent = replace(view.granted("visits"), received=torch.randn(view.granted("visits").received.shape))
    by_columns = success(FILTER().run(view.holding(visits=silent))["filter"], y)
    x = torch.randn(view.features.train.shape, generator=torch.Generator().manual_seed(0))
    by_gradients = success(FILTER().run(view.holding(features=Features(x, x[:1])))["filter"], y)
    assert found > max(by_columns, by_gradients) + 0.05


def test_a_class_that_shows_in_the_size_of_the_noise_is_found_by_a_variance_of_its_own():
    y, view = world(jump=0.3, noise=1.0, spread=(0.6, 1.6), features=1.0)
    _, alike = world(jump=0.3, noise=1.0, spread=(1.21, 1.21), features=1.0)
    both = [success(FILTER().run(v)["matched_filter"], y) for v in (view, alike)]
    assert both[0] > both[1]


@pytest.mark.parametrize(("classes", "worlds"), [(2, 8), (10, 4)])
def test_labels_that_nothing_shows_are_not_found(classes, worlds):
    found = []
    for seed in range(worlds):
        y, view = world(seed, classes=classes, noise=2.0, tell=False)
        found.append(success(FILTER().run(view)["matched_filter"], y))
    known = 10 * classes
    assert abs(sum(found) / worlds - 1 / classes) < chance(ROWS - known, classes, worlds)


def test_gradients_of_nothing_harm_no_success_of_own_columns():
    """Noise is hardly trusted: beside it the own columns say what they say to the same attack without any gradient."""
    lost = []
    for seed in range(6):
        y, view = world(seed, features=2.5)
        shape = view.granted("visits").received.shape
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        found = []
        for received in (noise, torch.zeros(shape)):
            visits = replace(view.granted("visits"), received=received)
            found.append(success(FILTER().run(view.holding(visits=visits))["filter"], y))
        lost.append(found[1] - found[0])
    assert sum(lost) / len(lost) < 0.01


def test_known_rows_are_not_counted_and_the_rest_may_be_a_sample():
    y, view = world()
    answer = FILTER(FILTER.Params(rows=300)).run(view)["matched_filter"]
    known = view.auxiliary.ids
    assert answer.scores.shape == (300, 2)
    assert len(set(answer.ids.tolist())) == 300
    assert set(answer.ids[~answer.counted].tolist()) == set(known.tolist())
    torch.testing.assert_close(answer.scores.sum(-1), torch.ones(300))
    assert success(answer, y) > 0.9


def test_a_sample_as_small_as_the_known_rows_still_scores_a_row():
    _, view = world()
    answer = FILTER(FILTER.Params(rows=10)).run(view)["matched_filter"]
    assert answer.counted.tolist() == [False] * 20 + [True]


def test_known_rows_count_by_position_not_by_the_order_in_which_they_are_given():
    said = []
    for turn in (False, True):
        _, view = world(noise=1.5, features=1.0)
        known = view.auxiliary
        if turn:
            view = view.holding(auxiliary=replace(known, ids=known.ids.flip(0), labels=known.labels.flip(0)))
        said.append(FILTER().run(view)["matched_filter"])
    assert torch.equal(said[0].ids, said[1].ids)
    torch.testing.assert_close(said[0].scores, said[1].scores, atol=1e-3, rtol=0)


def test_classes_are_named_by_the_known_rows():
    y, view = world(noise=1.0, features=0.0)
    wrong = view.holding(auxiliary=replace(view.auxiliary, labels=1 - view.auxiliary.labels))
    assert success(FILTER().run(wrong)["matched_filter"], y) < 0.1


@pytest.mark.parametrize("batch", [7, 100, 10 * ROWS])
def test_steps_of_any_size_are_read(batch):
    y, view = world(noise=1.5, features=1.0)
    visits = replace(view.granted("visits"), batch=batch)
    assert success(FILTER().run(view.holding(visits=visits))["matched_filter"], y) > 0.95


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_few_rounds_give_an_answer_of_each_candidate(rounds):
    y, view = world()
    answers = FILTER(FILTER.Params(rounds=rounds)).run(view)
    assert {a.scores.shape for a in answers.values()} == {(ROWS, 2)}
    assert success(answers["matched_filter"], y) > 0.9


def test_the_choice_finds_as_much_as_the_best_candidate():
    found = []
    for seed in range(6):
        y, view = world(seed, classes=4, noise=2.5)
        found.append({name: success(answer, y) for name, answer in FILTER().run(view).items()})
    means = {name: sum(of[name] for of in found) / 6 for name in found[0]}
    assert means["matched_filter"] > max(means.values()) - 0.01, means


def test_rows_whose_labels_are_all_known_are_refused():
    _, view = world(aux=ROWS)
    with pytest.raises(SpecError, match=f"labels for all {ROWS} training rows; lower aux_per_class"):
        FILTER().run(view)


def test_a_training_that_diverged_harms_no_other_member():
    _, view = world()
    alone = FILTER().run(view)["matched_filter"].scores
    both = packed([view, view])
    visits = both.granted("visits")
    broken = {name: getattr(visits, name).clone() for name in ("sent", "received")}
    for values in broken.values():
        values[1] = torch.nan
    found = FILTER().run(both.holding(visits=replace(visits, **broken)))["matched_filter"].scores
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[0], alone, atol=1e-3, rtol=0)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_pack_equals_its_members_one_by_one(classes):
    """Members whose classes show in another way, in noise of another size, with other known rows and shares."""
    views = [
        world(0, classes=classes, noise=1.5)[1],
        world(1, classes=classes, jump=0.3, spread=(0.6, 1.6), features=1.5)[1],
    ]
    together = FILTER().run(packed(views))
    for index, view in enumerate(views):
        for name, one in FILTER().run(view).items():
            assert torch.equal(together[name].ids[index], one.ids)
            assert torch.equal(together[name].counted[index], one.counted)
            apart = (together[name].scores[index] - one.scores).abs() > 2e-3
            assert apart.float().mean() <= 0.005


def test_a_pack_of_swapped_labels_equals_its_members_one_by_one():
    """A member's own swapping probabilities judge its rows; members of a pack have others."""
    views = [swapped(seed, keep)[1] for seed, keep in ((0, 0.7), (1, 0.9))]
    together = FILTER().run(packed(views))
    for index, view in enumerate(views):
        answers = FILTER().run(view)
        assert set(answers) == set(together)
        for name in answers:
            apart = (answers[name].scores - together[name].scores[index]).abs() > 2e-3
            assert apart.float().mean() < 0.005


def test_images_are_read_as_their_columns():
    _, view = world(noise=1.5, features=1.0)
    table = FILTER().run(view)["filter"].scores
    _, view = world(noise=1.5, features=1.0)
    x = view.features.train.view(ROWS, 1, 1, 2)
    torch.testing.assert_close(FILTER().run(view.holding(features=Features(x, x[:1])))["filter"].scores, table)


def test_of_tokens_what_the_bottom_model_makes_of_them_is_read():
    class Embedded(nn.Module):
        def forward(self, x):
            return words[x].mean(-2)

    g = torch.Generator().manual_seed(0)
    words = torch.randn(50, 2, generator=g)
    tokens = torch.randint(50, (ROWS, 3), generator=g)
    y = (words[tokens].mean(-2)[:, 0] > 0).long()
    ids = torch.cat([(y == k).nonzero().flatten()[:10] for k in range(2)])
    _, view = world()
    silent = replace(view.granted("visits"), received=torch.randn(view.granted("visits").received.shape, generator=g))
    view = view.holding(
        visits=silent, features=Features(tokens, tokens[:1]), bottom=Embedded,
        auxiliary=replace(view.auxiliary, ids=ids, labels=y[ids]),
    )  # fmt: skip
    assert success(FILTER().run(view)["filter"], y) > 0.95


def test_narrow_noise_that_is_wider_in_one_class_gives_every_row_away():
    """All but one direction hold a twentieth of the noise, and that alone depends on the class, as Marvell draws it."""
    y, view = world(jump=0.0, noise=1.0, features=1.0)
    visits = view.granted("visits")
    g = torch.Generator().manual_seed(1)
    wide = torch.randn(visits.received.shape, generator=g) * torch.tensor([1.0] + [0.05] * 5)
    wide[..., 1:] *= torch.where(y == 1, 1.6, 1.0)[:, None]
    found = FILTER().run(view.holding(visits=replace(visits, received=visits.sent @ torch.eye(6) * 0.01 + wide)))
    assert success(found["matched_filter"], y) > 0.99


def test_wild_entries_hide_little_from_clipped_means():
    """One entry in twenty is a hundred times the rest: in a sum these alone are heard."""
    y, view = world(jump=0.8, noise=1.0, features=0.3)
    visits = view.granted("visits")
    g = torch.Generator().manual_seed(2)
    wild = torch.rand(visits.received.shape, generator=g) < 0.05
    received = torch.where(wild, 100 * torch.randn(visits.received.shape, generator=g), visits.received)
    found = FILTER().run(view.holding(visits=replace(visits, received=received)))
    assert success(found["clipped_halves"], y) > success(found["halves"], y) + 0.1
    assert success(found["matched_filter"], y) > success(found["clipped_halves"], y) - 0.02


def test_under_noise_that_depends_on_the_class_it_finds_more_than_every_other_attack_of_default():
    answer = evaluate(
        "breast_cancer", defense="marvell", params={"budget": 4.0}, attacks=["default"], seeds=3,
        settings=["training.epochs=30"],
    )  # fmt: skip
    found = {name: a["advantage"] for name, a in answer["attacks"].items()}
    assert found.pop("matched_filter") > max(found.values()) + 0.05
    score = answer["attacks"]["matched_filter"]
    assert score["variant"] == "matched_filter"
    assert not score["upper_bound"]
    assert set(score["variants"]) == OF_TWO


def test_visits_weigh_by_the_noise_of_their_own_step():
    """Every other step is loud. With steps of the same rows in another order, loud and quiet visits are mixed."""
    y, view = world(noise=0.0, jump=0.8, features=1.0)
    visits = view.granted("visits")
    loud = (visits.places // visits.batch) % 2 == 0
    noise = torch.randn(visits.received.shape, generator=torch.Generator().manual_seed(9))
    received = visits.received + noise * torch.where(loud, 12.0, 1.0).unsqueeze(-1)
    found = []
    for places in (visits.places, visits_of(received, visits.sent, seed=77).places):
        of = replace(visits, received=received, places=places)
        found.append(success(FILTER().run(view.holding(visits=of))["filter"], y))
    assert found[0] > 0.99
    assert found[1] < 0.9
