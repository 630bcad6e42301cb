"""EM over visits: its models beside naive twins, worlds that only all epochs together give away, its grant."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.cells import cells
from tests.helpers.visits import EM, ROWS, WIDTH, success, visits_of, world
from tune_vfl.attacks.base import ATTACKS
from tune_vfl.attacks.parts.folded_rows import FOLDS, FoldedRows
from tune_vfl.attacks.parts.soft_gate import STRENGTH, SoftGate
from tune_vfl.attacks.parts.visit_evidence import agreement, balanced, joined_evidence, shares_of
from tune_vfl.attacks.parts.visit_model import VisitModel, standardized
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


def folded(rows, classes, seed=1):
    g = torch.Generator().manual_seed(seed)
    shares = torch.rand(1, rows, classes, generator=g).softmax(-1)
    folds = FoldedRows(torch.randperm(rows, generator=g)[None])
    return folds, shares


def test_folding_keeps_every_row_and_its_order():
    folds, shares = folded(83, 3)
    dealt = folds.fold(shares)
    assert dealt.shape == (1, FOLDS, 3, 21)
    assert int(folds.mask.sum()) == 83
    torch.testing.assert_close(folds.unfold(dealt)[0].T, shares[0, folds.order[0]])


def test_a_models_evidence_is_that_of_least_squares_on_the_other_folds():
    """The naive twin fits each fold's model by one solve on the columns themselves."""
    rows, k, d = 402, 3, 4
    g = torch.Generator().manual_seed(3)
    folds, shares = folded(rows, k)
    sent, received = torch.randn(1, 1, rows, d, generator=g), torch.randn(1, 1, rows, d, generator=g)
    explained = torch.randn(1, rows, 2, generator=g)
    dealt = folds.fold(shares).unsqueeze(2)
    found = folds.unfold(VisitModel(received, sent, explained, folds).linear(dealt))[0, 0, 0]  # (K - 1, M)
    order = folds.order[0]
    phi = torch.cat([standardized(sent[0, 0]), standardized(explained[0])], -1)[order].double()
    gradient = received[0, 0] - received[0, 0].mean(0)
    gradient = (gradient / gradient.square().mean().sqrt())[order].double()
    soft = shares[0, order].double()
    for fold in range(FOLDS):
        mine = torch.arange(rows) % FOLDS == fold
        n = int((~mine).sum())
        z, r, x = phi[~mine], soft[~mine], gradient[~mine]
        expected = torch.cat([torch.cat([z.T @ z, z.T @ r], 1), torch.cat([r.T @ z, torch.diag(r.sum(0))], 1)])
        coefficients = torch.linalg.solve(expected + 1e-3 * n * torch.eye(len(expected)), torch.cat([z, r], 1).T @ x)
        slope, jump = coefficients[: z.shape[1]], coefficients[z.shape[1] :]
        plain = (x.T @ x - x.T @ z @ torch.linalg.solve(z.T @ z + 1e-3 * n * torch.eye(z.shape[1]), z.T @ x)) / n
        noise = 0.95 * plain + 0.05 * plain.trace() / d * torch.eye(d)
        beyond = r.T @ x - r.T @ z @ torch.linalg.solve(z.T @ z + 1e-3 * n * torch.eye(z.shape[1]), z.T @ x)
        noise = noise - beyond.T @ jump / n
        left = gradient[mine] - phi[mine] @ slope
        density = torch.stack([-((left - m) @ torch.linalg.inv(noise) * (left - m)).sum(-1) / 2 for m in jump])
        torch.testing.assert_close(found[:, mine].double(), density[1:] - density[0], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("k", [2, 7])
def test_a_covariance_for_each_class_gives_the_densities_of_the_residuals_on_the_other_folds(k):
    """The naive twin takes the residuals row by row, by the least squares of each row's own fold."""
    rows, d = 402, 3
    g = torch.Generator().manual_seed(6)
    folds, shares = folded(rows, k)
    sent, explained = torch.randn(1, 2, rows, d, generator=g), torch.randn(1, rows, 2, generator=g)
    received = torch.randn(1, 2, rows, d, generator=g) * (1 + shares[0, :, :1])
    model = VisitModel(received, sent, explained, folds)
    found = folds.unfold(model.curved(folds.fold(shares).unsqueeze(2)))[0, 0]  # (E, K - 1, M)
    order, fold_of = folds.order[0], torch.arange(rows) % FOLDS
    soft = shares[0, order].double()
    for e in range(2):
        z = torch.cat([standardized(sent[0, e]), standardized(explained[0])], -1)[order].double()
        x = received[0, e] - received[0, e].mean(0)
        x = (x / x.square().mean().sqrt())[order].double()
        left = torch.zeros_like(x)
        for fold in range(FOLDS):
            out = fold_of != fold
            design = torch.cat([z, soft], 1)[out]
            gram = design.T @ design
            gram[-k:, -k:] = torch.diag(soft[out].sum(0))
            solved = torch.linalg.solve(gram + 1e-3 * int(out.sum()) * torch.eye(len(gram)), design.T @ x[out])
            left[~out] = x[~out] - z[~out] @ solved[:-k]
        for fold in range(FOLDS):
            out = fold_of != fold
            weights = soft[out] / soft[out].sum(0)
            means = weights.T @ left[out]
            apart = [left[out] - m for m in means]
            own = [(a * w[:, None]).T @ a for a, w in zip(apart, weights.T, strict=True)]
            common = sum(c * n for c, n in zip(own, soft[out].mean(0), strict=True))
            densities = []
            for mean, covariance in zip(means, own, strict=True):
                mixed = 0.8 * covariance + 0.2 * common
                mixed = 0.99 * mixed + 0.01 * mixed.trace() / d * torch.eye(d)
                normal = torch.distributions.MultivariateNormal(mean, mixed)
                densities.append(normal.log_prob(left[~out]))
            expected = torch.stack(densities[1:]) - densities[0]
            torch.testing.assert_close(found[e][:, ~out].double(), expected, atol=2e-3, rtol=2e-3)


def test_a_gate_is_the_logistic_regression_of_the_other_folds():
    rows, width = 403, 3
    g = torch.Generator().manual_seed(4)
    x = standardized(torch.randn(1, rows, width, generator=g))
    y = (x[0, :, 0] + 0.5 * torch.randn(rows, generator=g) > 0).long()
    folds = FoldedRows(torch.randperm(rows, generator=g)[None])
    shares = folds.fold(nn.functional.one_hot(y, 2).float()[None]).unsqueeze(2)
    gate = SoftGate(x, folds)
    for _ in range(30):
        said = gate.learn(shares)
    from sklearn.linear_model import LogisticRegression

    order, mine = folds.order[0], torch.arange(rows) % FOLDS == 1
    # Two opposite columns of coefficients have half of the penalty of their difference.
    plain = LogisticRegression(C=2 * STRENGTH).fit(x[0, order][~mine], y[order][~mine])
    expected = plain.predict_log_proba(x[0, order][mine])
    assert np.abs(folds.unfold(shares_of(said).log())[0, 0].T[mine].numpy() - expected).max() < 0.01


def test_shares_of_classes_come_out_as_they_are_known():
    odds = 1.5 * torch.randn(1, FOLDS, 2, 2, 50, generator=torch.Generator().manual_seed(0))
    folds = FoldedRows(torch.arange(FOLDS * 50)[None])
    prior = torch.tensor([0.7, 0.2, 0.1])
    shares = balanced(odds, prior.log()[None, None, None, :, None], folds.mask)
    torch.testing.assert_close(shares.mean((1, -1))[0, 0], prior, atol=5e-3, rtol=0)


def test_evidence_that_agrees_with_nothing_is_left_out():
    g = torch.Generator().manual_seed(0)
    folds = FoldedRows(torch.arange(FOLDS * 300)[None])
    y = torch.randint(2, (1, FOLDS, 1, 1, 300), generator=g).float()
    prior = torch.full((1, 1, 1, 2, 1), 0.5).log()
    gate = 4 * y - 2
    good = gate + 2**0.5 * torch.randn(y.shape, generator=g)
    bad = 3 * 2**0.5 * torch.randn(y.shape, generator=g)
    power, agreed = agreement(torch.cat([good, bad], 2), gate.expand(-1, -1, 2, -1, -1), prior, folds.mask)
    assert power.flatten()[0] > 0.5
    assert power.flatten()[1] <= 0.1
    assert agreed[0, 0] > 10 * agreed[0, 1].abs()


def test_epochs_that_repeat_each_other_count_once():
    g = torch.Generator().manual_seed(0)
    folds = FoldedRows(torch.arange(FOLDS * 500)[None])
    y = torch.randint(2, (1, FOLDS, 1, 1, 1, 500), generator=g).float()
    one = 2 * y - 1 + torch.randn(y.shape, generator=g)
    shares = torch.cat([1 - y, y], 4).squeeze(3)
    once, often = (joined_evidence(said, shares, folds.mask) for said in (one, one.expand(-1, -1, -1, 9, -1, -1)))
    assert often.std() < 1.3 * once.std()


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
