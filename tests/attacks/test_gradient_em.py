"""EM over visits: worlds that only all epochs together give away, packs of members, and its grant."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.cells import cells
from tests.helpers.visits import EM, ROWS, WIDTH, success, visits_of, world
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.parts.visit_model import standardized
from tune_vfl.defenses.base import defense_params
from tune_vfl.errors import SpecError
from tune_vfl.evaluation import evaluate
from tune_vfl.evaluation.grants.base import view_of
from tune_vfl.evaluation.grants.visits import FIRST, MOST, SPANS, kept_epochs
from tune_vfl.evaluation.task import Task
from tune_vfl.evaluation.training import train_pack
from tune_vfl.metrics.leakage import leak_auc, top1
from tune_vfl.protocol.granted import Auxiliary, Features
from tune_vfl.protocol.members import Pack
from tune_vfl.protocol.view import View
from tune_vfl.protocol.visits import Visits
from tune_vfl.seeds import Streams


@pytest.mark.parametrize("classes", [2, 4])
def test_all_epochs_together_say_what_no_single_one_does(classes):
    y, view = world(classes=classes, noise=2.0, jump=0.8)
    answers = EM().run(view)
    assert success(answers["gradient_em"], y) > 0.95
    one = view.granted("visits").received[0]
    rows = standardized(one)
    oracle = torch.stack([rows[y == k].mean(0) for k in range(classes)])
    nearest = -torch.cdist(rows, oracle)
    alone = leak_auc(nearest.numpy(), y.numpy(), flip=False) if classes == 2 else top1(nearest.numpy(), y.numpy())
    assert alone < 0.88, "one epoch would do"
    assert set(answers) == {"gradient_em", "means", "directions", "epochs", "curved"} | (
        {"joint"} if classes == 2 else set()
    )


def test_a_class_that_shows_in_the_size_of_the_noise_alone_is_found_by_a_covariance_of_its_own():
    y, view = world(jump=0.0, noise=1.0, spread=(1.0, 1.6), features=1.5)
    answers = EM().run(view)
    assert success(answers["curved"], y) > 0.97
    assert success(answers["gradient_em"], y) == pytest.approx(success(answers["curved"], y), abs=0.005)
    assert success(answers["means"], y) < 0.9


def test_directions_and_covariances_by_class_are_read_together():
    """Noise of wild size hides jumps from all that reads lengths; noise without jumps says nothing by directions."""
    y, view = world(jump=0.0, noise=0.0, features=0.5, aux=100)
    g, shape = torch.Generator().manual_seed(50), view.granted("visits").received.shape
    wild = torch.randn(shape, generator=g) * (0.7 * torch.randn(*shape[:2], 1, generator=g)).exp()
    jumps = 0.2 * torch.randn(2, WIDTH, generator=g)[y]
    visits = visits_of(view.granted("visits").received + jumps + wild, view.granted("visits").sent)
    answers = EM().run(view.holding(visits=visits))
    assert success(answers["joint"], y) > success(answers["curved"], y) + 0.1
    y, view = world(jump=0.0, noise=1.0, spread=(1.0, 1.6), features=1.5)
    answers = EM().run(view)
    assert success(answers["joint"], y) > success(answers["directions"], y) + 0.1


def test_labels_that_nothing_shows_are_not_found():
    found = [success(EM().run(view)["gradient_em"], y) for y, view in (world(s, tell=False) for s in range(8))]
    assert abs(np.mean(found) - 0.5) < 4 * 0.02 / 8**0.5 + 0.01


def test_known_rows_are_not_counted_and_the_rest_may_be_a_sample():
    y, view = world()
    answer = EM(EM.Params(rows=300)).run(view)["gradient_em"]
    known = view.auxiliary.ids
    assert answer.scores.shape == (300, 2)
    assert len(set(answer.ids.tolist())) == 300
    assert set(answer.ids[~answer.counted].tolist()) == set(known.tolist())
    torch.testing.assert_close(answer.scores.sum(-1), torch.ones(300))
    assert success(answer, y) > 0.9


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_few_rounds_give_an_answer_of_each_candidate(rounds):
    y, view = world()
    answers = EM(EM.Params(rounds=rounds)).run(view)
    assert {a.scores.shape for a in answers.values()} == {(ROWS, 2)}
    assert success(answers["gradient_em"], y) > 0.9


def test_rows_whose_labels_are_all_known_are_refused():
    _, view = world(aux=ROWS)
    with pytest.raises(SpecError, match="lower aux_per_class"):
        EM().run(view)


@pytest.mark.parametrize("name", ["gradient_em", "gradient_em_known"])
def test_a_training_that_diverged_harms_no_other_member(name):
    alone = ATTACKS[name]().run(world()[1])[name].scores
    _, view = world()
    visits = view.granted("visits")
    of_each = [v for v in vars(visits).values() if v is not None]
    broken = Visits(*(torch.stack([v, torch.full_like(v, torch.nan)]) for v in of_each))
    two = {
        "visits": broken,
        "features": Features(*(torch.stack([t, t]) for t in (view.features.train, view.features.test))),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(*(torch.stack([t, t]) for t in (view.auxiliary.ids, view.auxiliary.labels))),
        "class_prior": view.class_prior.expand(2, -1),
    }
    both = ATTACKS[name]().run(View("gradient_em", (2,), 2, Streams([0, 0]), two))[name].scores
    assert torch.isfinite(both).all()
    torch.testing.assert_close(both[0], alone, atol=1e-3, rtol=0)


def test_members_of_a_pack_that_need_other_candidates_each_get_their_own():
    """One shows its classes in means alone, the other in the size of its noise alone."""
    alone = [world(jump=1.0, features=0.5), world(seed=1, jump=0.0, spread=(1.0, 1.6), features=1.5)]
    views = [view for _, view in alone]
    visits = [v.granted("visits") for v in views]
    held = {
        "visits": Visits(*(torch.stack(p) for p in zip(*(list(vars(v).values())[:5] for v in visits), strict=True))),
        "features": Features(*(torch.stack([getattr(v.features, n) for v in views]) for n in ("train", "test"))),
        "bottom": nn.Identity,
        "auxiliary": Auxiliary(*(torch.stack([getattr(v.auxiliary, n) for v in views]) for n in ("ids", "labels"))),
        "class_prior": torch.stack([v.class_prior for v in views]),
    }
    both = EM().run(View("gradient_em", (2,), 2, Streams([0, 1]), held))["gradient_em"]
    for i, view in enumerate(views):
        one = EM().run(view)["gradient_em"]
        assert torch.equal(both.ids[i], one.ids)
        apart = (both.scores[i] - one.scores).abs() > 2e-3
        assert apart.float().mean() <= 0.005


def test_kept_epochs_are_the_first_and_others_up_to_the_last():
    assert kept_epochs(3, rows=10, width=2) == (0, 1, 2)
    kept = kept_epochs(300, rows=10, width=2)
    assert len(kept) == MOST
    assert kept[:FIRST] == (0, 1, 2, 3)
    assert kept[-1] == 299
    assert len(set(kept)) == MOST
    assert len(kept_epochs(300, rows=10**6, width=64)) == FIRST + 1


def test_what_is_kept_is_what_was_sent_and_received():
    cell = cells("training.epochs=7", defense="laplace", attacks=["gradient_em"])()
    task = Task.open(cell)
    run = train_pack(task, [defense_params("laplace", {}, num_classes=2)], Pack((0, 1), 1), task.watching)
    visits = view_of(task.watching[0], run).granted("visits")
    assert visits.received.shape[:3] == (2, 7, run.y_train.shape[-1])
    assert visits.received_means.shape[:2] == (2, SPANS)
    spans = [[e for e in range(7) if e * SPANS // 7 == s] for s in range(SPANS)]
    for s, epochs in enumerate(spans):
        torch.testing.assert_close(visits.received_means[:, s], visits.received[:, epochs].mean(1))
        torch.testing.assert_close(visits.sent_means[:, s], visits.sent[:, epochs].mean(1))
        units = nn.functional.normalize(visits.received[:, epochs], dim=-1).mean(1)
        torch.testing.assert_close(visits.direction_means[:, s], units, atol=1e-5, rtol=1e-4)


def test_under_noise_that_depends_on_the_class_it_finds_more_than_every_other_attack_of_default():
    answer = evaluate(
        "breast_cancer", defense="marvell", params={"budget": 4.0}, attacks=["default"], seeds=3,
        settings=["training.epochs=30"],
    )  # fmt: skip
    found = {name: a["advantage"] for name, a in answer["attacks"].items()}
    assert found.pop("gradient_em") > max(found.values()) + 0.05
    score = answer["attacks"]["gradient_em"]
    assert score["variant"] == "gradient_em"
    assert not score["upper_bound"]
    assert set(score["variants"]) == {"gradient_em", "means", "directions", "epochs", "curved", "joint"}
